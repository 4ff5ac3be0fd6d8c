"""`iris record-trace`: what really ran, as a trace for `iris simulate`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import yaml

from iris_operator.api.names import GPU_RESOURCE
from iris_operator.api.task import Task
from iris_operator.cli.session import Target, run_async, session, target_options
from iris_operator.ports.kube import TASKS


@click.command("record-trace")
@click.option("--all", "everything", is_flag=True, help="Also Tasks that run or wait; they count as if they ended now.")
@target_options
def record_trace(everything: bool, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Write the namespace's Tasks as a trace on standard output: when each came, how long it ran, what it asked for.

    \b
      iris record-trace -n team > trace.yaml
      iris simulate trace.yaml --fleet examples/simulation/fleet.yaml

    Only Tasks that still exist can be told of. What one asked for is its requests, and for what those leave out, its
    limits. A retried Task's duration is that of its last attempt.
    """
    tasks = run_async(_tasks(Target(kubeconfig, context, namespace)))
    rows = trace_rows(tasks, datetime.now(UTC), everything=everything)
    if not rows:
        raise click.ClickException("no Task to record: none has ended (--all for those that run or wait)")
    click.echo(f"# {len(rows)} Tasks; see iris simulate --help")
    click.echo(yaml.safe_dump({"tasks": rows}, sort_keys=False), nl=False)


async def _tasks(target: Target) -> list[Task]:
    async with session(target) as found:
        listing = await found.api.list(TASKS, found.namespace)
        return [Task.parse(item) for item in listing.items]


def trace_rows(tasks: list[Task], now: datetime, *, everything: bool) -> list[dict[str, Any]]:
    """Rows of a trace, in order of creation; without `everything` only of Tasks that started and ended."""
    rows = []
    for task in sorted(
        (one for one in tasks if not one.owner_uid),
        key=lambda one: (one.metadata.creation_timestamp or now, one.metadata.name),
    ):
        started, finished = task.status.start_time, task.status.finish_time
        if started is None or finished is None:
            if not everything:
                continue
            started, finished = started or now, finished or now
        rows.append(_row(task, task.metadata.creation_timestamp or now, (finished - started).total_seconds()))
    return rows


def _row(task: Task, created: datetime, seconds: float) -> dict[str, Any]:
    wants = {**task.spec.resources.limits, **task.spec.resources.requests}
    row: dict[str, Any] = {
        "name": task.metadata.name,
        "at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration": f"{max(0.0, seconds):.0f}s",
    }
    row |= {name: wants[name] for name in ("cpu", "memory") if name in wants}
    if int(wants.get(GPU_RESOURCE, 0)):
        row["gpus"] = int(wants[GPU_RESOURCE])
    if task.spec.replicas > 1:  # its members, which are Tasks too, are told of by it
        row |= {"count": task.spec.replicas, "gang": True}
    if task.spec.priority:
        row["priority"] = task.spec.priority
    if task.spec.placement.scale_group_name:
        row["group"] = task.spec.placement.scale_group_name
    return row
