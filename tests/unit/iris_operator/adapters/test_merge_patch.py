"""Merge patches: applied to what was, they give what shall be."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.adapters.kube.merge import apply_merge_patch, merge_patch

# No nulls: a merge patch can't write one, and objects of the API don't hold any.
_SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b"]))
_NAMES = st.sampled_from("abcd")


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=4))


_OBJECTS = st.dictionaries(_NAMES, st.recursive(_SCALARS, _extend, max_leaves=8), max_size=4)


@given(_OBJECTS, _OBJECTS)
def test_the_patch_leads_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = copy.deepcopy((before, after))
    patch = merge_patch(before, after)
    assert apply_merge_patch(before, patch or {}) == after
    assert (before, after) == kept


@given(_OBJECTS)
def test_no_change_no_patch(same: dict[str, Any]) -> None:
    assert merge_patch(same, copy.deepcopy(same)) is None


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "added": ({}, {"a": 1}, {"a": 1}),
    "removed": ({"a": 1}, {}, {"a": None}),
    "inside": ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
    "a list is replaced whole": ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
    "an object in place of a value": ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "a value in place of an object": ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
    "emptied": ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
}


@pytest.mark.parametrize("name", CASES)
def test_patch(name: str) -> None:
    before, after, patch = CASES[name]
    assert merge_patch(before, after) == patch
