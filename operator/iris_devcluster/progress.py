"""Progress for the person who waits: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

_QUIET_SECONDS = 10.0  # without a terminal, say at least this often that it goes on


class Progress:
    """Reports steps on standard error, each with the seconds it took."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    @contextmanager
    def step(self, what: str) -> Iterator[Step]:
        """Show `what` while the block runs, and how long it took when it is done."""
        began = time.monotonic()
        step = Step(self._console, what)
        try:
            if self._console.is_terminal:
                with self._console.status(what) as status:
                    step.show = lambda text: status.update(text)
                    yield step
            else:
                yield step
        except BaseException:
            self._console.print(f"[red]✗[/red] {what}", soft_wrap=True)
            raise
        note = f" [dim]{step.note}[/dim]" if step.note else ""
        self._console.print(
            f"[green]✓[/green] {what} [dim]{time.monotonic() - began:.1f} s[/dim]{note}", soft_wrap=True
        )

    def say(self, line: str) -> None:
        """One plain line."""
        self._console.print(line, soft_wrap=True)


class Step:
    """A step under way; `note` ends up beside the finished line."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what = console, what
        self._said = time.monotonic()
        self.note = ""
        self.show: Callable[[str], None] = self._plain

    def update(self, detail: str) -> None:
        """What it does at present; cheap enough to call often."""
        self.show(f"{self._what}: {detail}")

    def _plain(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said >= _QUIET_SECONDS:
            self._said = now
            self._console.print(f"  {text}", soft_wrap=True)
