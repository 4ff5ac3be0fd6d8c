"""Durations as people write them in files: 90, 90s, 15m, 2h, 1h30m, 1d."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")


def parse_span(value: object) -> float:
    """Seconds. Raises ValueError when it is no duration."""
    text = str(value).strip()
    try:
        seconds = float(text)
    except ValueError:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ValueError(f"{text!r} is no duration: write seconds, or 90s, 15m, 2h, 1h30m, 1d") from None
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{text!r} is no duration: it is below zero or without end")
    return seconds


Span = Annotated[float, BeforeValidator(parse_span)]
"""A duration in seconds, read as people write it."""
