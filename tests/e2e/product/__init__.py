"""The whole product on one cluster. A package, so that its cluster goes when its last test has run, not with the session."""
