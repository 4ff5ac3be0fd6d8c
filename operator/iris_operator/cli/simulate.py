"""`iris simulate`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from iris_operator.cli.output import console, print_data
from iris_operator.cli.simulate_chart import print_chart
from iris_operator.cli.simulate_plot import FORMATS, save_plot
from iris_operator.cli.simulate_report import print_report
from iris_operator.plan.text import duration
from iris_operator.simulation.fleet_file import Fleet, parse_fleet
from iris_operator.simulation.run import Options, simulate
from iris_operator.simulation.run import Progress as Told
from iris_operator.simulation.spans import parse_span
from iris_operator.simulation.workload import Trace, TraceError, parse_trace

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class SpanType(click.ParamType[float]):
    """A duration: 90s, 15m, 2h, 1d."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            return parse_span(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("simulate")
@click.argument("trace", type=_FILE)
@click.option(
    "-f",
    "--fleet",
    "fleets",
    type=_FILE,
    multiple=True,
    required=True,
    help="ScaleGroups (and an IrisCluster) as kubectl applies them, and a SimulatedVendor. May be given several times.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the boot times and failures that are drawn.")
@click.option("--until", type=SpanType(), help="Stop then. Default: when all Tasks ended, and --tail after that.")
@click.option("--tail", type=SpanType(), default="1h", show_default=True, help="How long to go on after the last Task.")
@click.option(
    "--resolution",
    type=SpanType(),
    help="What happens within so long is looked at together. Default: 1s, up to 60s for long traces of many Tasks.",
)
@click.option(
    "--decisions", type=click.IntRange(min=0), default=10, show_default=True, help="Show the last so many decisions."
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it too: a file that ends in .svg or .png."
)
@click.option("--chart/--no-chart", default=True, help="Draw it in the terminal.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def simulate_command(
    trace: Path,
    fleets: tuple[Path, ...],
    seed: int,
    until: float | None,
    tail: float,
    resolution: float | None,
    decisions: int,
    plot: Path | None,
    chart: bool,
    output: str,
) -> None:
    """Run TRACE on a fleet under simulated time: what it costs, how long Tasks wait, what is decided and why.

    The operator's own planning decides; only the vendor, the nodes and the agents are made up. Nothing is asked of any
    cluster, and nothing is rented.

    \b
      iris simulate examples/simulation/trace.yaml --fleet examples/simulation/fleet.yaml
      iris record-trace -n team > trace.yaml          a trace of what really ran
      iris simulate trace.yaml -f groups.yaml -f vendor.yaml --plot run.svg

    TRACE is YAML (a list under `tasks:`) or CSV (a file that ends in .csv, with these as its header):

    \b
      at        when it comes: 90, 15m, 2h since the start, or a time such as 2026-01-05T09:00:00Z
      duration  how long it runs, once it does
      cpu, memory, gpus   what it needs of one node
      count     so many like it; gang: true when they can only run all together
      priority  higher goes first, and in place of lower
      group     only on slices of this ScaleGroup
      name      of the Task; made up when left out

    The vendor's behaviour is a document of kind SimulatedVendor: see examples/simulation/fleet.yaml and docs/simulate.md.
    """
    if plot is not None and plot.suffix not in FORMATS:
        raise click.BadParameter(f"{plot.name} ends in neither {' nor '.join(FORMATS)}", param_hint="--plot")
    work, fleet = _read(trace, fleets)
    with _no_collection(), _progress() as told:
        result = simulate(work, fleet, Options(seed=seed, resolution=resolution, tail=tail, until=until), told)
    if plot is not None:
        save_plot(result, plot, f"{trace.name} on {', '.join(one.metadata.name for one in fleet.groups)}")
    if output != "table":
        print_data(result.data(decisions), output)
        return
    out = console()
    print_report(out, result, decisions)
    if chart:
        print_chart(out, result)
    if plot is not None:
        click.echo(f"\nPicture: {plot}")


def _read(trace: Path, fleets: tuple[Path, ...]) -> tuple[Trace, Fleet]:
    try:
        work = parse_trace(trace.read_text(), "csv" if trace.suffix == ".csv" else "yaml")
    except (TraceError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{trace}: {error}") from error
    try:
        return work, parse_fleet([path.read_text() for path in fleets])
    except (TraceError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{', '.join(str(path) for path in fleets)}: {error}") from error


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hundreds of thousands of models without a cycle: looking for one costs a quarter of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _progress() -> Iterator[Told]:
    """On standard error, and only where somebody looks; gone when done."""
    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal
    ) as bar:
        line = bar.add_task("", total=None)

        def told(seconds: float, ended: int, of: int) -> None:
            text = f"{duration(seconds)}: {ended} of {of} Tasks ended"
            bar.update(line, completed=ended, total=of, description=text)

        yield told
