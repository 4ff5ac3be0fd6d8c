"""Whose turn it is to launch: so many NodePools a minute, as controller/launch_rate.py counts them."""

from __future__ import annotations


class Turns:
    """A token bucket of one operator's process; each that waits keeps its turn. Times in seconds."""

    def __init__(self) -> None:
        self._full_at: float | None = None
        self._turns: dict[str, float] = {}

    @property
    def fresh(self) -> bool:
        """Whether nobody asked yet."""
        return self._full_at is None

    def wait(self, who: str, now: float, per_minute: int, just_launched: int) -> float:
        """0: go. Else so long until its turn. `just_launched`: launches of the last minute that this process knows not of."""
        interval = 60.0 / per_minute
        if self._full_at is None:
            self._full_at = now + min(just_launched, per_minute) * interval
        turn = self._turns.get(who)
        if turn is None:
            self._full_at = max(self._full_at, now) + interval
            turn = self._full_at - per_minute * interval
        if turn <= now:
            self._turns.pop(who, None)
            return 0.0
        self._turns[who] = turn
        return turn - now
