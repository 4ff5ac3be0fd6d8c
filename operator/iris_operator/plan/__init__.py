"""Decisions, as pure functions: (frozen snapshot, now) -> a plan that says why. No I/O, no clocks, no asyncio."""
