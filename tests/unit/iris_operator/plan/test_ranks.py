"""Ranks: for life, and the lowest free one for a newcomer."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.plan.slices.ranks import assign_ranks
from tests.builders import node


@dataclass(frozen=True)
class Case:
    nodes: list[str]
    before: dict[str, int]
    size: int
    ranks: dict[int, str]
    leaving: list[str] = field(default_factory=list)


CASES = {
    "no nodes": Case([], {}, 2, {}),
    "first nodes, by name": Case(["b", "a"], {}, 2, {0: "a", 1: "b"}),
    "ranks are kept": Case(["a", "b"], {"a": 1, "b": 0}, 2, {0: "b", 1: "a"}),
    "a replacement takes the free rank": Case(["a", "c", "0new"], {"a": 0, "b": 1, "c": 2}, 3, {0: "a", 1: "0new", 2: "c"}),
    "a missing node's rank stays free": Case(["b"], {"a": 0, "b": 1}, 2, {1: "b"}),
    "a node too many gets none": Case(["a", "b", "c"], {"a": 0, "b": 1}, 2, {0: "a", 1: "b"}),
    "two claim one rank": Case(["a", "b"], {"a": 0, "b": 0}, 2, {0: "a", 1: "b"}),
    "a rank beyond the size": Case(["a"], {"a": 7}, 2, {0: "a"}),
    "a leaving node has none": Case(["a", "b"], {"a": 0}, 1, {0: "b"}, leaving=["a"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ranks(name: str) -> None:
    case = CASES[name]
    nodes = [node(name=one) for one in case.nodes]
    built = [one.deleting().build() if one.body()["metadata"]["name"] in case.leaving else one.build() for one in nodes]
    found = assign_ranks(built, case.before, case.size)
    assert {rank: one.metadata.name for rank, one in found.items()} == case.ranks


@given(
    st.permutations(["a", "b", "c", "d"]),
    st.dictionaries(st.sampled_from("abcdz"), st.integers(0, 5), max_size=5),
    st.integers(1, 5),
)
def test_whatever_came_before(order: list[str], before: dict[str, int], size: int) -> None:
    found = assign_ranks([node(name=one).build() for one in order], before, size)
    names = [one.metadata.name for one in found.values()]
    assert len(set(names)) == len(names) == min(size, 4)
    assert set(found) <= set(range(size))
    assert found == assign_ranks([node(name=one).build() for one in sorted(order)], before, size)
    again = assign_ranks(
        [node(name=one).build() for one in order], {one.metadata.name: r for r, one in found.items()}, size
    )
    assert again == found
