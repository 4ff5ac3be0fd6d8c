"""I/O: what satisfies the ports. kube/ talks to the API server, fakes/ is the same in memory."""
