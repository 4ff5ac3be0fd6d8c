"""Who an agent and the gateway are to each other: the authority, certificate requests, TLS contexts.

`certificates`, `authority`, `judge` and `papers` are pure (clock passed in); `tls` makes contexts; nothing here does I/O.
"""
