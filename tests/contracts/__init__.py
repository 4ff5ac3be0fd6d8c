"""Test bodies that every implementation of a port passes: fakes in tests/unit, real things in tests/cluster and tests/e2e."""
