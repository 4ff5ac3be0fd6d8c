"""How long a boot has taken, and what is usual: for people, in words that don't change at every pass."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

_USUAL = "bare metal usually takes 20 to 30 min"
_SHOWN_BOOTS = 5
# Elapsed time is told in such steps: each is a write of the status.
STEP = timedelta(minutes=5)


def usual_boot(boots: Sequence[int]) -> str:
    """`last 5 took 17-22 min`, from seconds, newest first; the vendor's figure when nothing was learned yet."""
    seen = boots[:_SHOWN_BOOTS]
    if not seen:
        return _USUAL
    how_many = f"last {len(seen)}" if len(seen) > 1 else "the last one"
    return f"{how_many} took {_span(min(seen), max(seen))}"


def elapsed(since: datetime, now: datetime) -> str:
    """`booting 10 min`, rounded down to the step; `booting` before the first."""
    steps = max(0, (now - since) // STEP)
    return f"booting {steps * STEP // timedelta(minutes=1)} min" if steps else "booting"


def next_step(since: datetime, now: datetime) -> datetime:
    """When the words of `elapsed` change next."""
    return since + (max(0, (now - since) // STEP) + 1) * STEP


def _span(low: int, high: int) -> str:
    if high < 120:
        return f"{low}s" if low == high else f"{low}-{high}s"
    least, most = round(low / 60), round(high / 60)
    return f"{least} min" if least == most else f"{least}-{most} min"
