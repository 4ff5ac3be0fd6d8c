"""Tables for people, JSON and YAML for programs. Colours only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iris_operator.plan.text import duration

_GOOD = {"Succeeded", "Ready", "True"}
_BAD = {"Failed", "WorkerLost", "Degraded", "Killed", "Preempted", "Blocked"}
_UNDER_WAY = {"Running", "Assigned", "Building", "Booting", "Initializing", "Deleting"}
OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
"""How to print."""

# A pipe has no width; nothing is cut for it.
_PIPE_WIDTH = 500


def console() -> Console:
    """Standard output."""
    return (
        Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=_PIPE_WIDTH, no_color=True, highlight=False)
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns as kubectl sets them; the last one takes the rest."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        last = index == len(columns) - 1
        made.add_column(name, overflow="fold" if last else "ellipsis", no_wrap=not last)
    for row in rows:
        made.add_row(*(phase_text(cell) for cell in row))
    return made


def phase_text(word: str) -> Text:
    """A phase in its colour; other words as they are."""
    colour = "green" if word in _GOOD else "red" if word in _BAD else "yellow" if word in _UNDER_WAY else ""
    return Text(word, style=colour)


def age(since: datetime | None, now: datetime) -> str:
    """How long ago; empty when unknown."""
    return duration(max(0.0, (now - since).total_seconds())) if since is not None else ""


def print_data(data: Any, form: str) -> None:
    """JSON or YAML on standard output."""
    text = json.dumps(data, indent=2) if form == "json" else yaml.safe_dump(data, sort_keys=False).rstrip()
    click.echo(text)
