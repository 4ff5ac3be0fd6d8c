"""What holds of every answer to demand, whatever waits and whatever groups there are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from iris_operator.plan.groups.capacity import NodeCapacity
from iris_operator.plan.groups.demand import Demand, Grower, Lot, Unit, Where, plan_demand
from iris_operator.plan.placement.shapes import make_shape

_GPU = "nvidia.com/gpu"
_GROUPS = ["a", "b", "c"]


def _capacity(draw: st.DrawFn) -> NodeCapacity:
    known = {"cpu": draw(st.integers(1, 8)), "memory": draw(st.integers(1, 8)), _GPU: draw(st.integers(0, 8))}
    return NodeCapacity(known, True)


@st.composite
def growers(draw: st.DrawFn) -> list[Grower]:
    """Up to three groups."""
    found = []
    for name in draw(st.lists(st.sampled_from(_GROUPS), unique=True)):
        at_most = draw(st.integers(0, 6))
        can_make, nodes = draw(st.integers(0, at_most)), draw(st.integers(1, 3))
        cost = draw(st.sampled_from([0.0, 1.0, 2.5]))
        found.append(Grower(name, "default", draw(st.integers(0, 2)), cost, nodes, _capacity(draw), can_make, at_most))
    return found


@st.composite
def lots(draw: st.DrawFn, groups: list[Grower]) -> list[Lot]:
    """Slices in flight of these groups."""
    found = []
    for one in groups:
        units = [Unit(f"{one.name}{n}", one.name, Where.IN_FLIGHT) for n in range(draw(st.integers(0, 2)))]
        if units:
            nodes = [unit for unit in units for _ in range(one.node_count)]
            found.append(Lot("default", one.name, Where.IN_FLIGHT, one.capacity, nodes))
    return found


@st.composite
def demands(draw: st.DrawFn) -> list[Demand]:
    """Up to six, a third of them gangs."""
    found = []
    for _ in range(draw(st.integers(0, 6))):
        wanted = {"cpu": draw(st.integers(1, 4)), "memory": draw(st.integers(1, 4)), _GPU: draw(st.integers(0, 4))}
        shape = make_shape(wanted, "default", draw(st.sampled_from(["", "", "a"])))
        members = draw(st.sampled_from([1, 1, 3]))
        found.append(Demand(shape, draw(st.integers(1, 9)), members, draw(st.integers(0, 9)), draw(st.booleans())))
    return found


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_demand(data: st.DataObject) -> None:
    groups = data.draw(growers())
    flying = data.draw(lots(groups))
    wanted = data.draw(demands())
    may = {one.name: one.can_make for one in groups}
    nodes = {one.name: one.node_count for one in groups}
    capacity = {one.name: one.capacity for one in groups}
    there = {lot.group: len(lot.units) for lot in flying}
    plan = plan_demand(wanted, flying, groups)

    # Never more than a group may make, and nothing for Tasks that have not waited long enough.
    assert all(number <= may[name] for name, number in plan.make.items())
    if not any(demand.mature for demand in wanted):
        assert plan.make == {}

    used: dict[str, dict[str, int]] = {}
    for demand, shares in zip(wanted, plan.shares, strict=True):
        # Every Task is told one thing.
        assert sum(share.tasks for share in shares) == demand.count * demand.members
        for share in shares:
            assert demand.shape.scale_group_name in ("", share.group) or share.where is Where.NOWHERE
            if share.where in (Where.IN_FLIGHT, Where.NEW):
                taken = used.setdefault(share.group, {})
                for name, value in demand.shape.wanted.items():
                    taken[name] = taken.get(name, 0) + value * share.tasks
        if demand.members > 1:
            _whole(demand, [(share.tasks, share.group, share.where) for share in shares])

    # No more is promised than what flies and what is made can hold.
    for group, taken in used.items():
        number = there.get(group, 0) + plan.make.get(group, 0) * nodes[group]
        assert all(value <= capacity[group].of(name) * number for name, value in taken.items())


def _whole(demand: Demand, shares: list[tuple[int, str, Where]]) -> None:
    """Each gang has all its Tasks promised room in one group, or none."""
    left = 0
    group = ""
    for tasks, where_in, where in shares:
        if where not in (Where.IN_FLIGHT, Where.NEW):
            assert left == 0
            continue
        if left == 0:
            left, group = demand.members, where_in
        assert where_in == group
        left -= tasks
    assert left == 0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_slice_is_made_that_nobody_uses(data: st.DataObject) -> None:
    groups = data.draw(growers())
    plan = plan_demand(data.draw(demands()), [], groups)
    for name, number in plan.make.items():
        news = {
            id(unit) for shares in plan.shares for share in shares
            if share.where is Where.NEW and share.group == name for unit in share.units
        }  # fmt: skip
        assert len(news) == number
