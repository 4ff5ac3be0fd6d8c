"""`iris-operator gateway`: streams of Tasks and nodes as an aggregated API, authorised as the user, forwarded by mutual TLS.

It keeps nothing. `routes`, `headers`, `target`, `documents` are pure; `proxy` and `server` do the I/O.
"""
