"""The course of a simulation in the terminal: nodes by state stacked over time, and below them the Tasks that wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from iris_operator.cli.simulate_report import clock
from iris_operator.simulation.recorder import BOOTING, BUSY, IDLE, LEAVING, STATES, Point
from iris_operator.simulation.result import Result, sampled

_HEIGHT, _LOW_HEIGHT = 12, 5
_WIDTH = 100
_MARGIN = 8
_SIGNS = {BUSY: "█", IDLE: "▒", BOOTING: "░", LEAVING: "·"}
_PLAIN = {BUSY: "#", IDLE: "=", BOOTING: ":", LEAVING: "."}
_COLOURS = {BUSY: "green", IDLE: "yellow", BOOTING: "blue", LEAVING: "red"}


def print_chart(console: Console, result: Result) -> None:
    """As wide as the terminal, at most 100 columns; without colours and blocks where there is none."""
    fancy = console.is_terminal
    width = min(_WIDTH, (console.width if fancy else _WIDTH) - _MARGIN - 1)
    points = sampled(result.points, result.seconds, width)
    signs = _SIGNS if fancy else _PLAIN
    console.print()
    console.print(_legend(signs))
    _print_rows(console, _stack(points, signs), max((sum(one.nodes.values()) for one in points), default=0))
    _print_axis(console, result.seconds, width)
    console.print("Tasks that wait:")
    waiting = [float(one.waiting) for one in points]
    _print_rows(console, _area(waiting, "█" if fancy else "#"), max(waiting, default=0.0))
    _print_axis(console, result.seconds, width)


def _legend(signs: dict[str, str]) -> Text:
    text = Text("Nodes: ")
    for state in STATES:
        text.append(f"{signs[state]} {state}  ", style=_COLOURS[state])
    return text


Row = list[tuple[str, str]]  # (sign, style) by column


def _stack(points: Sequence[Point], signs: dict[str, str]) -> list[Row]:
    top = max((sum(one.nodes.values()) for one in points), default=0) or 1

    def cell(point: Point, level: float) -> tuple[str, str]:
        reached = 0
        for state in STATES:
            reached += point.nodes[state]
            if level < reached:
                return signs[state], _COLOURS[state]
        return " ", ""

    return _rows(points, _HEIGHT, top, cell)


def _area(values: Sequence[float], sign: str) -> list[Row]:
    top = max(values, default=0.0) or 1.0
    return _rows(values, _LOW_HEIGHT, top, lambda value, level: (sign, "magenta") if level < value else (" ", ""))


def _rows(columns: Iterable[object], height: int, top: float, cell: Callable[..., tuple[str, str]]) -> list[Row]:
    """From the top down; a row stands for the middle of its share, the lowest for anything above nothing."""
    levels = [top * (row + 0.5) / height if row else 0.0 for row in reversed(range(height))]
    kept = list(columns)
    return [[cell(column, level) for column in kept] for level in levels]


def _print_rows(console: Console, rows: list[Row], top: float) -> None:
    for number, row in enumerate(rows):
        label = {0: f"{math.ceil(top)}", len(rows) - 1: "0"}.get(number, "")
        line = Text(f"{label:>{_MARGIN - 2}} |")
        for sign, style in row:
            line.append(sign, style=style)
        line.rstrip()
        console.print(line)


def _print_axis(console: Console, seconds: float, width: int) -> None:
    ticks = 4
    line = [" "] * (width + 6)
    for tick in range(ticks + 1):
        label = clock(seconds * tick / ticks)
        at = min(round(width * tick / ticks), width - len(label) + 1)
        line[at : at + len(label)] = list(label)
    console.print(" " * (_MARGIN - 1) + "+" + "-" * width)
    console.print(" " * _MARGIN + "".join(line).rstrip())
