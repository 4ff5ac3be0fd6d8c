"""Numbers for people: durations, counts, resource lists. One wording everywhere."""

from __future__ import annotations

from datetime import datetime

from iris_operator.api.quantity import Amounts, to_quantity


def duration(seconds: float) -> str:
    """`45s`, `14 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f}s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def clock(moment: datetime) -> str:
    """Time of day, UTC."""
    return moment.strftime("%H:%M:%S UTC")


def count(number: int, thing: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def amounts_text(values: Amounts) -> str:
    """`cpu 500m, memory 1Gi`; `nothing` when empty."""
    return ", ".join(f"{name} {to_quantity(name, value)}" for name, value in sorted(values.items())) or "nothing"


def names_text(names: list[str], limit: int = 5) -> str:
    """`a, b, c and 4 more`."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
