"""The runtimes on private containerds. A package, so that what its tests share goes when the last has run."""
