"""What holds of every placement, whatever the slices and Tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iris_operator.api.cluster import Defaults
from iris_operator.api.quantity import amounts, shortage
from iris_operator.plan.placement.placement import PlacementPlan, PlacementView, plan_placement
from iris_operator.plan.tasks.requests import task_requests
from tests.builders import NAMESPACE, NOW, SliceBuilder, TaskBuilder, cluster, slice_, task

_NODE = st.fixed_dictionaries(
    {"cpu": st.integers(0, 8).map(str), "memory": st.sampled_from(["1Gi", "4Gi"]), "gpu": st.integers(0, 8)}
)
_NEEDS = st.fixed_dictionaries({}, optional={"cpu": st.integers(1, 4).map(str), "gpu": st.integers(0, 5)})


@st.composite
def slices(draw: st.DrawFn) -> list[SliceBuilder]:
    """Up to three slices of up to three nodes."""
    shapes: list[list[dict[str, Any]]] = draw(st.lists(st.lists(_NODE, min_size=1, max_size=3), max_size=3))
    return [slice_(f"s{number}", nodeCount=len(nodes)).ready(*nodes) for number, nodes in enumerate(shapes)]


@st.composite
def tasks(draw: st.DrawFn) -> list[TaskBuilder]:
    """Up to twelve Tasks, some restricted to a slice."""
    rows = draw(
        st.lists(st.tuples(_NEEDS, st.integers(0, 99), st.sampled_from(["", "", "s0", "s1", "none"])), max_size=12)
    )
    return [
        task(f"t{number}", placement={"sliceName": where}).limits(**needs).made(ago)
        for number, (needs, ago, where) in enumerate(rows)
    ]


def _view(owners: list[SliceBuilder], wanted: list[TaskBuilder]) -> PlacementView:
    return PlacementView(
        NAMESPACE, (cluster().build(),), tuple(one.build() for one in owners), tuple(one.build() for one in wanted)
    )


def _bindings(plan: PlacementPlan) -> dict[str, tuple[str, int]]:
    return {one.task.metadata.name: (one.binding.slice_name, one.binding.rank) for one in plan.bindings}


def _words(plan: PlacementPlan) -> dict[str, tuple[str, str]]:
    return {one.task.metadata.name: (one.reason, one.message) for one in plan.unplaced}


@settings(max_examples=60, deadline=None)
@given(slices(), tasks())
def test_never_over_capacity_and_nobody_is_forgotten(owners: list[SliceBuilder], wanted: list[TaskBuilder]) -> None:
    view = _view(owners, wanted)
    plan = plan_placement(view, NOW)
    used: dict[tuple[str, int], Counter[str]] = {}
    for one in plan.bindings:
        used.setdefault((one.binding.slice_name, one.binding.rank), Counter()).update(
            task_requests(one.task, Defaults())
        )
    capacity = {
        (one.metadata.name, node.rank): amounts(node.allocatable) for one in view.slices for node in one.status.nodes
    }
    for where, taken in used.items():
        assert not shortage(taken, capacity[where])
    for one in plan.bindings:
        assert one.task.spec.placement.slice_name in ("", one.binding.slice_name)
    assert sorted([*_bindings(plan), *_words(plan)]) == sorted(one.metadata.name for one in view.tasks)


@settings(max_examples=40, deadline=None)
@given(slices(), tasks(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    owners: list[SliceBuilder], wanted: list[TaskBuilder], dice: Any
) -> None:
    plan = plan_placement(_view(owners, wanted), NOW)
    assert _bindings(plan_placement(_view(owners, wanted), NOW)) == _bindings(plan)
    other = plan_placement(_view(dice.sample(owners, len(owners)), dice.sample(wanted, len(wanted))), NOW)
    assert (_bindings(other), _words(other)) == (_bindings(plan), _words(plan))


@settings(max_examples=40, deadline=None)
@given(slices(), tasks())
def test_what_was_bound_leaves_no_room_twice(owners: list[SliceBuilder], wanted: list[TaskBuilder]) -> None:
    """A second pass, after the bindings were written, binds nothing that the first one could not."""
    first = plan_placement(_view(owners, wanted), NOW)
    bound = _bindings(first)
    after = [
        one.bound(*bound[one.build().metadata.name]) if one.build().metadata.name in bound else one for one in wanted
    ]
    second = plan_placement(_view(owners, after), NOW)
    assert second.bindings == ()
    assert set(_words(second)) == set(_words(first))
