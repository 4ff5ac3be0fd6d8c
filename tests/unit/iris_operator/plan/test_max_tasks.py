"""worker.maxTasks in what groups make: no node is promised more Tasks than it may have."""

from __future__ import annotations

import pytest

from iris_operator.plan.groups.capacity import NodeCapacity
from iris_operator.plan.groups.demand import Demand, Grower, Lot, Unit, Where, plan_demand
from iris_operator.plan.placement.shapes import make_shape


def _capacity(tasks: int) -> NodeCapacity:
    return NodeCapacity({"cpu": 64_000}, True, tasks)


@pytest.mark.parametrize(("tasks", "at_most", "made"), [(5, 2, 3), (4, 2, 2), (5, 100, 1), (1, 1, 1)])
def test_slices_made_for_many_small_tasks(tasks: int, at_most: int, made: int) -> None:
    grower = Grower("g", "default", 0, 1.0, 1, _capacity(at_most), can_make=10, at_most=10)
    plan = plan_demand([Demand(make_shape({"cpu": 100}), tasks)], [], [grower])
    assert plan.make == {"g": made}


def test_a_second_shape_finds_what_the_first_left_by_number() -> None:
    lot = Lot("default", "g", Where.IN_FLIGHT, _capacity(3), [Unit("s", "g", Where.IN_FLIGHT)])
    demands = [Demand(make_shape({"cpu": 200}), 2), Demand(make_shape({"cpu": 100}), 2)]
    plan = plan_demand(demands, [lot], [Grower("g", "default", 0, 1.0, 1, _capacity(3), can_make=10, at_most=10)])
    assert [[(one.tasks, one.where) for one in shares] for shares in plan.shares] == [
        [(2, Where.IN_FLIGHT)],
        [(1, Where.IN_FLIGHT), (1, Where.NEW)],
    ]
