"""What needs an API server. A package, so that the one they share goes when the last test has run, not with the session."""
