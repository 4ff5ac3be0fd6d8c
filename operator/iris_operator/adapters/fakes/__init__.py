"""Stand-ins in memory for tests and simulations. Each passes the same contract tests as the real thing (tests/contracts)."""
