"""How a boot is told: learned, coarse, and not another word at every pass."""

from __future__ import annotations

from datetime import timedelta

import pytest

from iris_operator.plan.slices.boot_text import elapsed, next_step, usual_boot
from tests.builders import NOW

USUAL = {
    "nothing learned": ((), "bare metal usually takes 20 to 30 min"),
    "one": ((1020,), "the last one took 17 min"),
    "five": ((1020, 1320, 1100, 1200, 1300), "last 5 took 17-22 min"),
    "only the newest five": ((1020, 1020, 1020, 1020, 1020, 9000), "last 5 took 17 min"),
    "seconds, as in a test": ((3, 5), "last 2 took 3-5s"),
}


@pytest.mark.parametrize("name", USUAL)
def test_usual(name: str) -> None:
    boots, words = USUAL[name]
    assert usual_boot(boots) == words


@pytest.mark.parametrize(
    ("seconds", "words", "next_in"),
    [
        (0, "booting", 300),
        (299, "booting", 1),
        (300, "booting 5 min", 300),
        (899, "booting 10 min", 1),
        (-5, "booting", 305),
    ],
)
def test_elapsed(seconds: int, words: str, next_in: int) -> None:
    since = NOW - timedelta(seconds=seconds)
    assert elapsed(since, NOW) == words
    assert next_step(since, NOW) == NOW + timedelta(seconds=next_in)
