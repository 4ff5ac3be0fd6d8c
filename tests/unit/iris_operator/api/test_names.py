"""Names that are bounded in length and stay apart."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from iris_operator.api.names import bounded_name, slice_id, worker_pod_name

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_NAME = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,200}[a-z0-9])?", fullmatch=True)


def test_a_short_name_stays() -> None:
    assert slice_id("team", "a") == "team-a"
    assert worker_pod_name("a", 3) == "a-worker-3"


@given(_NAME)
def test_any_name_fits_a_label(name: str) -> None:
    short = bounded_name(name)
    assert len(short) <= 63
    assert _LABEL.match(short)
    assert bounded_name(short) == short


def test_long_names_with_one_beginning_stay_apart() -> None:
    assert worker_pod_name("a" * 80, 1) != worker_pod_name("a" * 80, 2)
