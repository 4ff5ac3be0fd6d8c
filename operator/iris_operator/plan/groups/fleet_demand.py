"""Unplaced Tasks sorted into demands: by shape, by gang, and by whether they have waited long enough for a slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from iris_operator.plan.groups.crew import Crew
from iris_operator.plan.groups.demand import Demand
from iris_operator.plan.placement.placement import Unplaced
from iris_operator.plan.placement.shapes import Shape


@dataclass
class Queue:
    """`demands` and the Tasks of each, oldest first; and the Tasks that no new slice can help.

    `named`: they name a slice; `no_group`: they name a group that isn't there. `wake`: when a Task has waited long enough.
    """

    demands: list[Demand] = field(default_factory=list)
    tasks: list[list[Unplaced]] = field(default_factory=list)
    misconfigured: list[Unplaced] = field(default_factory=list)
    named: list[tuple[Unplaced, Shape]] = field(default_factory=list)
    no_group: list[tuple[Unplaced, Shape]] = field(default_factory=list)
    wake: list[float] = field(default_factory=list)


def queue_demand(
    unplaced: tuple[Unplaced, ...], gangs: Mapping[str, str], crews: Mapping[str, Crew], now: datetime
) -> Queue:
    """`unplaced`: of each priority, oldest first. `crews`: by group name."""
    queue = Queue()
    by_shape: dict[tuple[Shape, str, int], list[Unplaced]] = {}
    for one in unplaced:
        shape = one.shape
        if shape is None:
            queue.misconfigured.append(one)
        elif shape.slice_name:
            queue.named.append((one, shape))
        elif shape.scale_group_name and shape.scale_group_name not in crews:
            queue.no_group.append((one, shape))
        elif one.members > 1:
            _add_together(queue, one, shape, crews, now.timestamp())
        else:
            gang = gangs.get(one.task.metadata.uid, "") if gangs else ""
            kind = (shape, gang, one.task.spec.priority)
            found = by_shape.get(kind)
            if found is None:
                by_shape[kind] = [one]
            else:
                found.append(one)
    delays = _delays(crews)
    for (shape, gang, _), found in by_shape.items():
        _add(queue, shape, gang, found, delays.get(shape.cluster, 0), now.timestamp())
    return queue


def _delays(crews: Mapping[str, Crew]) -> dict[str, int]:
    return {crew.cluster: crew.autoscaler.scale_up_delay_seconds for crew in crews.values()}


def _add_together(queue: Queue, one: Unplaced, shape: Shape, crews: Mapping[str, Crew], now: float) -> None:
    """A Task of several replicas: each is a demand of its own, for one slice."""
    since = _since(one, now)
    ripe = since + _delays(crews).get(shape.cluster, 0)
    _put(queue, Demand(shape, 1, one.members, since, ripe <= now, one.task.spec.priority, together=True), [one])
    queue.wake += [ripe] if ripe > now else []


def _add(queue: Queue, shape: Shape, gang: str, found: list[Unplaced], delay: float, now: float) -> None:
    since, priority = _since(found[0], now), found[0].task.spec.priority
    if gang:  # waits as long as its youngest member
        ripe = _since(found[-1], now) + delay
        _put(queue, Demand(shape, 1, len(found), since, ripe <= now, priority), found)
        queue.wake += [ripe] if ripe > now else []
        return
    old = _first_young(found, now - delay, now)
    if old:
        _put(queue, Demand(shape, old, 1, since, True, priority), found[:old])
    if old < len(found):
        young = Demand(shape, len(found) - old, 1, _since(found[old], now), False, priority)
        _put(queue, young, found[old:])
        queue.wake.append(_since(found[old], now) + delay)


def _put(queue: Queue, demand: Demand, found: list[Unplaced]) -> None:
    queue.demands.append(demand)
    queue.tasks.append(found)


def _first_young(found: list[Unplaced], limit: float, now: float) -> int:
    """How many of them, oldest first, came no later than `limit`."""
    low, high = 0, len(found)
    while low < high:
        middle = (low + high) // 2
        if _since(found[middle], now) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


def _since(one: Unplaced, now: float) -> float:
    created = one.task.metadata.creation_timestamp
    return created.timestamp() if created is not None else now
