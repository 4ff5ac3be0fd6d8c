"""One reconciler per kind: read the cache, ask plan/, apply. Each may run again, late, or twice."""
