"""make bench: Iris, a Kubernetes Job and straight containerd, side by side on one node, in one run."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click
from rich.console import Console

from iris_devcluster.errors import DevclusterError
from iris_devcluster.progress import Progress
from iris_operator.adapters.kube.config import ConfigError
from iris_operator.ports.errors import ApiError
from tests.perf import setup
from tests.perf.measure import Measured, Plan, measure
from tests.perf.observe import Unmeasured
from tests.perf.planning import measure_planning, planning_document, show_planning
from tests.perf.report import document, show


async def _run(root: Path, slice_name: str, instance_type: str, plan: Plan, keep: bool, progress: Progress) -> Measured:
    with setup.running_cluster(root, progress, keep) as cluster:
        async with (
            setup.client(cluster) as api,
            setup.installed(cluster, api, keep),
            setup.ready_slice(cluster, api, slice_name, instance_type, progress) as target,
        ):
            return await measure(target, plan, progress)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tasks", default=100, show_default=True, help="Tasks at once, and sandboxes on containerd alone.")
@click.option("--pods", default=100, show_default=True, help="Completions of the Job.")
@click.option("--single", default=20, show_default=True, help="How many of each one at a time.")
@click.option("--rounds", default=1, show_default=True, help="Rounds of all three; rates are the median round's.")
@click.option(
    "--parallelism", default=100, show_default=True, type=click.IntRange(1, 100), help="Pods the Job runs at once."
)
@click.option("--slice", "slice_name", default="bench", show_default=True, help="Slice to use, or to make and delete.")
@click.option("--instance-type", default="cd-gp-i64-erapids", show_default=True, help="Of a slice that is made.")
@click.option(
    "--root",
    default=setup.DEFAULT_ROOT,
    type=click.Path(file_okay=False, path_type=Path),
    help="The embedded cluster's directory.  [default: .iris]",
)
@click.option("--keep", is_flag=True, help="Leave up a cluster, and a chart, that had to be started for this.")
@click.option("--planning-only", is_flag=True, help="Only how long planning takes: needs no cluster.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    tasks: int,
    pods: int,
    single: int,
    rounds: int,
    parallelism: int,
    slice_name: str,
    instance_type: str,
    root: Path,
    keep: bool,
    planning_only: bool,
    output: str,
) -> None:
    """Measure Iris, a Kubernetes Job and containerd alone, side by side on one node.

    Uses the embedded cluster that runs (make demo leaves one), else starts one and stops it again. Exits with an error
    only when something could not be measured, whatever the figures are: they are ratios of one run on one machine.
    """
    plan = Plan(tasks, pods, single, rounds, parallelism)
    progress = Progress()
    with progress.step("planning: up to 10,000 Tasks on 1,000 slices"):
        planning = planning_document(list(measure_planning()))
    console = Console()
    # A file or a pipe has no width of its own; tables must not be folded in it.
    console = console if console.is_terminal else Console(width=120)
    if planning_only:
        if output == "json":
            click.echo(json.dumps({"planning": planning}, indent=2))
        else:
            show_planning(planning, console)
        return
    try:
        found = asyncio.run(_run(root.resolve(), slice_name, instance_type, plan, keep, progress))
    except (Unmeasured, ApiError, ConfigError, DevclusterError) as error:
        click.echo(f"not measured: {error}", err=True)
        sys.exit(1)
    figures = {**document(found, plan), "planning": planning}
    if output == "json":
        click.echo(json.dumps(figures, indent=2))
    else:
        show(figures, console)
        show_planning(planning, console)


if __name__ == "__main__":
    main()
