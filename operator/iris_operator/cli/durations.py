"""Times as a person types them on a command line: `90s`, `2h`, `1h30m`; and points in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WHOLE = re.compile(r"(?:[0-9]+[smhd])+|[0-9]+")
_PART = re.compile(r"([0-9]+)([smhd])")
_MOST = timedelta(days=366)


def parse_duration(text: str) -> timedelta:
    """`45s`, `10m`, `2h`, `1d`, `1h30m`; a bare number is seconds. ValueError, with what is right, for all else."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is no duration: write it as 45s, 10m, 2h, 1d or 1h30m")
    seconds = int(text) if text.isdigit() else sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _MOST.total_seconds():
        raise ValueError(f"{text!r} is longer than a year")
    return timedelta(seconds=seconds)


def parse_moment(text: str) -> datetime:
    """ISO 8601, in the local zone unless it names another; in UTC. ValueError, with what is right, for all else."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is no time: write it as 2026-11-22T18:00 or 2026-11-22T18:00Z") from error


class DurationType(click.ParamType[timedelta]):
    """An option's value as a timedelta."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """BadParameter when it is none."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class MomentType(click.ParamType[datetime]):
    """An option's value as a datetime in UTC."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """BadParameter when it is none."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
