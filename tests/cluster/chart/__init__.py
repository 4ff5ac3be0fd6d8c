"""The chart on an API server. A package, so that this one goes when the last test has run, not with the session."""
