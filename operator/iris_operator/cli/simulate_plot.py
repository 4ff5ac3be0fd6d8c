"""The course of a simulation as a picture, SVG or PNG, by matplotlib (extra `plot`)."""

from __future__ import annotations

from pathlib import Path

import click

from iris_operator.simulation.recorder import BOOTING, BUSY, IDLE, LEAVING, STATES
from iris_operator.simulation.result import Result, sampled

_POINTS = 500
_HOUR = 3600.0
_COLOURS = {BUSY: "#2e8b57", IDLE: "#f0c419", BOOTING: "#8fb8de", LEAVING: "#c0574a"}
FORMATS = (".svg", ".png")


def save_plot(result: Result, path: Path, title: str) -> None:
    """Write the picture. ClickException when matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise click.ClickException("--plot needs matplotlib: pip install 'iris[plot]'") from None
    matplotlib.use("Agg")
    # text stays text, and the same run gives the same file
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "iris", "font.size": 9})
    from matplotlib.figure import Figure

    points = sampled(result.points, result.seconds, _POINTS)
    hours = [one.at / _HOUR for one in points]
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    nodes, tasks = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    nodes.stackplot(
        hours,
        [[one.nodes[state] for one in points] for state in STATES],
        labels=STATES,
        colors=[_COLOURS[state] for state in STATES],
        step="post",
        linewidth=0,
    )
    nodes.set_ylabel("nodes")
    nodes.set_title(title)
    nodes.legend(loc="upper right", frameon=False, ncols=4)
    tasks.step(hours, [one.waiting for one in points], where="post", color="#7b3fa0", label="waiting")
    tasks.step(hours, [one.running for one in points], where="post", color="#2e8b57", label="running")
    tasks.set_ylabel("Tasks")
    tasks.set_xlabel("hours")
    tasks.legend(loc="upper right", frameon=False, ncols=2)
    for axes in (nodes, tasks):
        axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.15)  # room for the legend
        axes.margins(x=0)
        axes.spines[["top", "right"]].set_visible(False)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, dpi=120, metadata=metadata)
