"""The embedded cluster. A package, so that what its tests share goes when the last has run, not with the session."""
