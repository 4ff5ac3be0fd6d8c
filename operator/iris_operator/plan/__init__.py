"""Decisions, as pure functions: (frozen snapshot, now) -> a plan that says why. No I/O, no clocks, no asyncio.

Rooms: `placement` (which Task goes where, who makes room), `tasks` (their attempts and ends), `slices` (from NodePool to Ready
and back), `groups` (how much there is to be). What all of them use lies here.
"""
