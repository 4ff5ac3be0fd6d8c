"""Times as typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from iris_operator.cli.durations import parse_duration, parse_moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45", 45),
        ("45s", 45),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1d2h3m4s", 93784),
        ("0", 0),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "2 h", "-1h", "1.5h", "2w", "1h30", "two hours", "9" * 30, "999999999d"])
def test_what_is_no_duration_says_what_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as|longer than a year"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["2026-11-22T18:00Z", "2026-11-22T18:00:00+00:00", "2026-11-22T19:00+01:00", "2026-11-22 18:00:00.9Z"]
)
def test_moments(text: str) -> None:
    assert parse_moment(text) == datetime(2026, 11, 22, 18, tzinfo=UTC)


def test_without_a_zone_it_is_the_local_one() -> None:
    here = datetime(2026, 11, 22, 18).astimezone()
    assert parse_moment("2026-11-22T18:00") == here


@pytest.mark.parametrize("text", ["", "tomorrow", "18:00", "2026-13-01", "1h"])
def test_what_is_no_moment_says_what_is(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 2026-11-22T18:00"):
        parse_moment(text)
