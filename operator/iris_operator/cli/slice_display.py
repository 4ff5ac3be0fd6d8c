"""Progress of waiting on standard error: drawn anew every second on a terminal, a line per change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from iris_operator.cli.slice_wait import Left, Watched

Show = Callable[[Sequence[Left]], None]


@contextmanager
def display() -> Iterator[Show]:
    """What to call at each look."""
    if not sys.stderr.isatty():
        yield changes(lambda line: click.echo(line, err=True))
        return
    watched = Watched()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(lefts: Sequence[Left]) -> None:
            now = datetime.now(UTC)
            live.update(Text("\n".join(line for one in lefts for line in watched.lines(one, now))), refresh=True)

        yield show


def changes(say: Callable[[str], None]) -> Show:
    """Says each line once, until it changes; the end of a slice is left to the command."""
    said: dict[str, str] = {}

    def show(lefts: Sequence[Left]) -> None:
        for one in lefts:
            if not one.end and said.get(one.goal.name) != one.line:
                said[one.goal.name] = one.line
                say(one.line)

    return show
