"""A token bucket for launches: so many a minute, as many at once, and each that must wait has its turn.

Our own, as aiolimiter's waits inside the call: here a worker of the queue would be held by each waiting slice, and nobody
could say when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable

# A turn that nobody took (its slice is gone) is forgotten after so long.
_FORGET_SECONDS = 300.0


class LaunchRate:
    """One bucket. `clock` gives seconds that never go back. Single event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._full_at = 0.0  # when the bucket will be full again, turns that are given out counted as taken
        self._per_minute = 0
        self._turns: dict[str, float] = {}

    @property
    def fresh(self) -> bool:
        """Whether nobody asked yet: only then `just_launched` is looked at."""
        return not self._per_minute

    def take(self, who: str, per_minute: int, just_launched: int = 0) -> float:
        """0: go. Else the seconds until it is `who`'s turn; ask again then.

        `just_launched`: launches of the last minute, for the first call of a process that does not know of them.
        """
        now = self._clock()
        interval = 60.0 / per_minute
        self._adapt(now, per_minute, just_launched)
        for name in [name for name, turn in self._turns.items() if turn < now - _FORGET_SECONDS]:
            del self._turns[name]
        turn = self._turns.get(who)
        if turn is None:
            self._full_at = max(self._full_at, now) + interval
            turn = self._full_at - per_minute * interval
        if turn <= now:
            self._turns.pop(who, None)
            return 0.0
        self._turns[who] = turn
        return turn - now

    def _adapt(self, now: float, per_minute: int, just_launched: int) -> None:
        """A changed rate: what is used up stays used up, and turns are given out anew."""
        if per_minute == self._per_minute:
            return
        if self._per_minute:
            used = max(0.0, self._full_at - now) / 60.0 * self._per_minute - len(self._turns)
        else:
            used = float(just_launched)
        self._turns.clear()
        self._per_minute = per_minute
        self._full_at = now + max(0.0, min(used, per_minute)) * 60.0 / per_minute
