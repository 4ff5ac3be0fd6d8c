"""What `iris simulate` prints: bill, waits, failures, decisions."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from iris_operator.cli.output import table
from iris_operator.plan.text import duration
from iris_operator.simulation.result import Result


def print_report(console: Console, result: Result, decisions: int) -> None:
    """Tables, one after the other, with what is worth a sentence between them."""
    for part in _parts(result, decisions):
        console.print(part)


def _parts(result: Result, decisions: int) -> Iterator[RenderableType]:
    yield _headline(result)
    yield ""
    yield from _bill(result)
    yield ""
    yield _waits(result)
    yield from _failures(result)
    yield from _stuck(result)
    if decisions:
        yield from _decisions(result, decisions)


def _headline(result: Result) -> str:
    lost = f", {result.retried} attempts lost and retried" if result.retried else ""
    return f"{result.tasks} Tasks in {duration(result.seconds)}: {result.ended} ended{lost}"


def _bill(result: Result) -> Iterator[RenderableType]:
    priced = any(one.cost for one in result.bills)
    columns = (
        "GROUP",
        "NODE-HOURS",
        "BUSY",
        "IDLE",
        "BOOTING",
        "LEAVING",
        "WASTE",
        "SLICES",
        *(("COST",) if priced else ()),
    )
    rows = [
        [
            one.group,
            *(f"{hours:.1f}" for hours in (one.total, one.busy, one.idle, one.booting, one.leaving)),
            _percent(one.total - one.busy, one.total),
            str(one.slices_made),
            *((f"{one.cost:.2f}",) if priced else ()),
        ]
        for one in result.bills
    ]
    total, busy = sum(one.total for one in result.bills), sum(one.busy for one in result.bills)
    if len(rows) > 1:
        sums = [sum(getattr(one, name) for one in result.bills) for name in ("idle", "booting", "leaving")]
        made, cost = sum(one.slices_made for one in result.bills), sum(one.cost for one in result.bills)
        rows.append(
            [
                "all",
                *(f"{hours:.1f}" for hours in (total, busy, *sums)),
                _percent(total - busy, total),
                str(made),
                *((f"{cost:.2f}",) if priced else ()),
            ]
        )
    yield table(columns, rows)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _waits(result: Result) -> str:
    if result.waits is None:
        return "Waits: no Task started"
    waits = result.waits
    return (
        f"Waits until a Task first started: half under {duration(waits.p50)} (p50), 95 of 100 under "
        f"{duration(waits.p95)} (p95), worst {duration(waits.worst)}"
    )


def _failures(result: Result) -> Iterator[RenderableType]:
    if result.failures:
        yield ""
        rows = [[group, kind, str(number)] for group, kind, number in result.failures]
        yield table(("FAILED SLICES OF", "KIND", "COUNT"), rows)


def _stuck(result: Result) -> Iterator[RenderableType]:
    if result.stuck:
        yield ""
        yield Text(f"{result.tasks - result.ended} Tasks had not ended, and waited for:", style="yellow")
        rows = [[str(one.count), one.example, one.reason, one.message] for one in result.stuck]
        yield table(("TASKS", "SUCH AS", "REASON", "WHY"), rows)


def _decisions(result: Result, number: int) -> Iterator[RenderableType]:
    shown = result.decisions[-number:]
    yield ""
    if not shown:
        yield "No decisions: nothing was scaled"
        return
    if len(shown) < len(result.decisions):
        yield f"The last {len(shown)} of {len(result.decisions)} decisions (--decisions N for more):"
    yield table(
        ("AT", "GROUP", "ACTION", "REASON", "WHY"),
        [[clock(one.at), one.group, one.action, one.reason, one.message] for one in shown],
    )


def clock(seconds: float) -> str:
    """Time since the start: 0:00, 26:05."""
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d}"
