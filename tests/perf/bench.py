"""make bench: Tasks beside a Kubernetes Job and straight containerd; planning; a fleet of slices. One run, one machine."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from iris_devcluster.errors import DevclusterError
from iris_devcluster.progress import Progress
from iris_operator.adapters.kube.config import ConfigError
from iris_operator.ports.errors import ApiError
from tests.perf import fleet, setup
from tests.perf.follow import measure_follow, show_follow
from tests.perf.measure import Measured, Plan, measure
from tests.perf.observe import Unmeasured
from tests.perf.planning import measure_planning, planning_document, show_planning
from tests.perf.report import document, show
from tests.perf.warm import measure_warm, show_warm


async def _run(root: Path, slice_name: str, instance_type: str, plan: Plan, keep: bool, progress: Progress) -> Measured:
    with setup.running_cluster(root, progress, keep) as cluster:
        async with (
            setup.client(cluster) as api,
            setup.installed(cluster, api, keep),
            setup.ready_slice(cluster, api, slice_name, instance_type, progress) as target,
        ):
            return await measure(target, plan, progress)


def _tasks(
    root: Path, slice_name: str, instance_type: str, plan: Plan, keep: bool, progress: Progress
) -> dict[str, Any]:
    return document(asyncio.run(_run(root.resolve(), slice_name, instance_type, plan, keep, progress)), plan)


def _planning(progress: Progress) -> dict[str, Any]:
    with progress.step("planning: up to 10,000 Tasks on 1,000 slices"):
        return planning_document(list(measure_planning()))


def _warm(count: int, progress: Progress) -> dict[str, Any]:
    with progress.step(f"warm starts: {count}, and as many bare execs"):
        return measure_warm(count)


def _logs(progress: Progress) -> dict[str, Any]:
    with progress.step(f"following a log of {_LOG_MIB} MiB"):
        return measure_follow(_LOG_MIB)


_LOG_MIB = 512
SHOW: dict[str, Callable[[Any, Console], None]] = {
    "planning": show_planning,
    "logs": show_follow,
    "warm": show_warm,
    "tasks": show,
    "fleet": fleet.show,
}
"""The parts, in the order in which they are measured."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", multiple=True, type=click.Choice(list(SHOW)), help="Only this part; may be given several times."
)
@click.option("--tasks", default=100, show_default=True, help="Tasks at once, and sandboxes on containerd alone.")
@click.option("--pods", default=100, show_default=True, help="Completions of the Job.")
@click.option("--single", default=20, show_default=True, help="How many of each one at a time.")
@click.option("--rounds", default=1, show_default=True, help="Rounds of all three; rates are the median round's.")
@click.option(
    "--parallelism", default=100, show_default=True, type=click.IntRange(1, 100), help="Pods the Job runs at once."
)
@click.option("--slice", "slice_name", default="bench", show_default=True, help="Slice to use, or to make and delete.")
@click.option("--instance-type", default="cd-gp-i64-erapids", show_default=True, help="Of a slice that is made.")
@click.option("--slices", default=1000, show_default=True, type=click.IntRange(1, 8000), help="Slices of the fleet.")
@click.option("--groups", default=8, show_default=True, type=click.IntRange(1, 100), help="ScaleGroups they are in.")
@click.option("--rest", default=30.0, show_default=True, help="Seconds that the fleet is watched at rest.")
@click.option(
    "--root",
    default=setup.DEFAULT_ROOT,
    type=click.Path(file_okay=False, path_type=Path),
    help="The embedded cluster's directory.  [default: .iris]",
)
@click.option("--keep", is_flag=True, help="Leave up a cluster, and a chart, that had to be started for this.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    only: tuple[str, ...],
    tasks: int,
    pods: int,
    single: int,
    rounds: int,
    parallelism: int,
    slice_name: str,
    instance_type: str,
    slices: int,
    groups: int,
    rest: float,
    root: Path,
    keep: bool,
    output: str,
) -> None:
    """Measure what Iris takes, in parts.

    \b
    planning  how long one pass over waiting Tasks, slices and groups takes; needs no cluster
    logs      how fast the agent's route lets a log be followed; needs no cluster
    warm      a command in a sandbox that stays, beside a bare exec of containerd; on a containerd of its own
    tasks     Iris, a Kubernetes Job and containerd alone, side by side on one node of the embedded cluster:
              the one that runs (make demo leaves one), else one that is started and stopped again
    fleet     slices to Ready and back to nothing around one operator, on an API server of its own, where
              nodes, kubelets and agents are played

    Exits with an error only when something could not be measured, whatever the figures are: they are ratios of one run
    on one machine.
    """
    plan = Plan(tasks, pods, single, rounds, parallelism)
    progress = Progress()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "planning": lambda: _planning(progress),
        "logs": lambda: _logs(progress),
        "warm": lambda: _warm(2 * single, progress),
        "tasks": lambda: _tasks(root, slice_name, instance_type, plan, keep, progress),
        "fleet": lambda: fleet.document(asyncio.run(fleet.measure(slices, groups, rest, progress))),
    }
    try:
        figures = {name: part() for name, part in parts.items() if not only or name in only}
    except (Unmeasured, ApiError, ConfigError, DevclusterError) as error:
        click.echo(f"not measured: {error}", err=True)
        sys.exit(1)
    if output == "json":
        click.echo(json.dumps(figures, indent=2))
        return
    console = Console()
    # A file or a pipe has no width of its own; tables must not be folded in it.
    console = console if console.is_terminal else Console(width=120)
    for name, found in figures.items():
        SHOW[name](found, console)


if __name__ == "__main__":
    main()
