"""What a person asks of a node: logs, commands in Tasks, ports, use, images. Handlers for the TLS port alone.

Nothing here decides who may ask: the TLS port lets in only the gateway, which has asked the API server.
"""
