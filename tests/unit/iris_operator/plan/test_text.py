"""Numbers for people."""

from __future__ import annotations

import pytest

from iris_operator.plan.text import amounts_text, clock, count, duration, names_text
from tests.builders import NOW


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (89, "89s"), (90, "2 min"), (1800, "30 min"), (5400, "1.5 h"), (86400, "24.0 h")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_and_lists() -> None:
    assert (count(1, "node"), count(0, "node"), count(2, "node")) == ("1 node", "0 nodes", "2 nodes")
    assert names_text(["a", "b"]) == "a, b"
    assert names_text(list("abcdefg"), 3) == "a, b, c and 4 more"
    assert amounts_text({}) == "nothing"
    assert amounts_text({"memory": 2**30, "cpu": 500}) == "cpu 500m, memory 1Gi"
    assert clock(NOW) == "12:00:00 UTC"
