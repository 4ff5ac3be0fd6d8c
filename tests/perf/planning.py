"""How long one pass of planning takes: placement, then all groups; by how much waits and how much there is."""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.groups.fleet import FleetView, plan_fleet
from iris_operator.plan.placement.ledger import Ledger
from iris_operator.plan.placement.placement import PlacementView, plan_placement
from tests.builders import CPU, H100, NAMESPACE, NOW, at, cluster, group, group_member, task

GROUPS = 8
TASKS = (100, 1_000, 10_000)
SLICES = (10, 100, 1_000)
AIM_MS = 200
_SHAPES = 40
_SEED = 4


@dataclass(frozen=True)
class World:
    """One namespace: all slices Ready and idle; half of the groups have 8 GPUs a node."""

    groups: tuple[ScaleGroup, ...]
    slices: tuple[Slice, ...]
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Planned:
    """Milliseconds of one pass, wall clock, median of the rounds: `first` knows nothing, `next` keeps its ledger.

    `cpu`: processor milliseconds of a first pass, which a busy machine blurs less.
    """

    tasks: int
    slices: int
    bound: int
    made: int
    first_ms: float
    cpu_ms: float
    next_ms: float


def build(tasks: int, slices: int) -> World:
    """Always the same for the same numbers."""
    dice = random.Random(_SEED)
    shapes = [
        (dice.choice((1, 2, 4, 8)), dice.choice((4, 8, 32, 64)), dice.choice((0, 0, 1, 2, 4, 8)))
        for _ in range(_SHAPES)
    ]
    return World(
        tuple(_group(number) for number in range(GROUPS)),
        tuple(_slice(number) for number in range(slices)),
        tuple(_task(number, *dice.choice(shapes)) for number in range(tasks)),
    )


def plan(world: World, ledger: Ledger) -> tuple[int, int]:
    """One pass: Tasks bound, slices to make."""
    settings = (cluster().build(),)
    placement = plan_placement(PlacementView(NAMESPACE, settings, world.slices, world.tasks), NOW, ledger)
    view = FleetView(NAMESPACE, settings, world.groups, world.slices, world.tasks)
    found = plan_fleet(view, placement, NOW, ledger)
    return len(placement.bindings), sum(len(one.actions) for one in found.groups)


def measure_planning(
    rounds: int = 5, tasks: Sequence[int] = TASKS, slices: Sequence[int] = SLICES
) -> Iterator[Planned]:
    """Every size, one after the other."""
    for number in tasks:
        for many in slices:
            yield _measure(build(number, many), rounds)


def growth(found: Sequence[Planned]) -> list[dict[str, float]]:
    """Each step of ten times as many Tasks on the most slices: how many times the processor time of a first pass."""
    most = max(one.slices for one in found)
    rows = sorted((one for one in found if one.slices == most), key=lambda one: one.tasks)
    return [
        {"tasks": after.tasks / before.tasks, "time": round(after.cpu_ms / before.cpu_ms, 2)}
        for before, after in pairwise(rows)
    ]


def planning_document(found: Sequence[Planned]) -> dict[str, Any]:
    """The figures for -o json."""
    largest = max(found, key=lambda one: (one.tasks, one.slices))
    aim = {"firstMs": AIM_MS, "tasks": largest.tasks, "slices": largest.slices}
    met = {"met": largest.first_ms < AIM_MS, "metByCpu": largest.cpu_ms < AIM_MS}
    return {
        "groups": GROUPS,
        "passes": [asdict(one) for one in found],
        "growth": growth(found),
        "load": round(os.getloadavg()[0], 1),
        "aim": {**aim, **met},
    }


def show_planning(figures: Mapping[str, Any], console: Console) -> None:
    """A table, the growth, and whether the aim is met."""
    table = Table(title=f"Planning one pass, {figures['groups']} groups: milliseconds")
    for title in (
        "waiting Tasks",
        "slices",
        "Tasks placed",
        "slices acted on",
        "first pass",
        "its CPU",
        "next pass",
        "µs a Task",
    ):
        table.add_column(title, justify="right")
    for one in figures["passes"]:
        each = one["first_ms"] / one["tasks"] * 1000
        table.add_row(
            f"{one['tasks']:,}", f"{one['slices']:,}", f"{one['bound']:,}", f"{one['made']:,}", f"{one['first_ms']:.1f}",
            f"{one['cpu_ms']:.1f}", f"{one['next_ms']:.1f}", f"{each:.0f}",
        )  # fmt: skip
    console.print(table)
    steps = ", ".join(
        f"{step['tasks']:g} times as many take {step['time']:g} times the processor time" for step in figures["growth"]
    )
    console.print(f"Growth with waiting Tasks, on the most slices: {steps}")
    aim = figures["aim"]
    verdict = "met" if aim["met"] else "not met"
    if not aim["met"] and aim["metByCpu"]:
        verdict += f", but met in processor time (this machine was busy: load {figures['load']})"
    console.print(f"The aim for {aim['tasks']:,} Tasks on {aim['slices']:,} slices is {aim['firstMs']} ms: {verdict}")


def _measure(world: World, rounds: int) -> Planned:
    walls, cpus, nexts = [], [], []
    done = (0, 0)
    gc.collect()
    gc.freeze()  # the world is the benchmark's; only the planner's own garbage is the planner's
    try:
        for _ in range(rounds):
            ledger = Ledger()
            wall, cpu = time.perf_counter(), time.process_time()
            done = plan(world, ledger)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            wall = time.perf_counter()
            plan(world, ledger)
            nexts.append(time.perf_counter() - wall)
    finally:
        gc.unfreeze()
    first, cpu_ms, following = (round(statistics.median(one) * 1000, 2) for one in (walls, cpus, nexts))
    return Planned(len(world.tasks), len(world.slices), *done, first, cpu_ms, following)


def _group(number: int) -> ScaleGroup:
    gpus = 8 if number % 2 else 0
    template = {"spec": {"instanceType": H100 if gpus else CPU, "gpusPerNode": gpus}}
    built = group(f"g{number}", minSlices=0, maxSlices=1000, priority=number % 3, template=template)
    offers = {"cpu": "64" if gpus else "128", "memory": "512Gi"}
    return built.spec(costPerNodeHour=float(10 + number), nodeResources=offers).build()


def _slice(number: int) -> Slice:
    gpus = {"gpu": 8} if number % 2 else {}
    offers = {"cpu": "64" if gpus else "128", "memory": "512Gi", **gpus}
    return group_member(f"g{number % GROUPS}", f"s{number:04}").ready(offers).status(idleSince=at(100)).build()


def _task(number: int, cpu: int, memory: int, gpus: int) -> Task:
    return task(f"t{number:05}").limits(cpu=cpu, memory=f"{memory}Gi", gpu=gpus).made(number % 3600).build()
