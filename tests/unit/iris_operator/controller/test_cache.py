"""The cache: never older than what was seen, and nothing comes back from the dead."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.controller.cache import Cache
from iris_operator.ports.kube import IRIS_CLUSTERS, LEASES, NODEPOOLS, NODES, PODS, SCALE_GROUPS, SLICES, TASKS
from tests.builders import Builder, cluster, group, group_member, lease, node, node_pool, slice_, task, worker


def _at(version: int, built: Builder[Any]) -> dict[str, Any]:
    return built.meta(resourceVersion=str(version)).body()


def test_a_newer_one_takes_the_place() -> None:
    cache = Cache()
    cache.put(SLICES, _at(1, slice_()))
    assert cache.put(SLICES, _at(2, slice_().phase("Ready"))) is not None
    assert cache.slices["team/s"].status.phase == "Ready"


@pytest.mark.parametrize("version", [4, 5])
def test_an_older_or_the_same_one_is_no_news(version: int) -> None:
    cache = Cache()
    cache.put(SLICES, _at(5, slice_().phase("Ready")))
    assert cache.put(SLICES, _at(version, slice_())) is None
    assert cache.slices["team/s"].status.phase == "Ready"


def test_versions_are_numbers_not_texts() -> None:
    cache = Cache()
    cache.put(SLICES, _at(9, slice_()))
    assert cache.put(SLICES, _at(10, slice_())) is not None


@given(st.lists(st.integers(1, 30), min_size=1))
def test_the_newest_stays_in_any_order(versions: list[int]) -> None:
    cache = Cache()
    for version in versions:
        cache.put(SLICES, _at(version, slice_()))
    assert cache.slices["team/s"].metadata.resource_version == str(max(versions))


def test_gone_is_gone() -> None:
    cache = Cache()
    cache.put(SLICES, _at(1, slice_()))
    assert cache.drop(SLICES, "team/s", "uid-s") is not None
    assert cache.put(SLICES, _at(9, slice_())) is None
    assert cache.slices == {}


def test_another_of_the_same_name_is_not_it() -> None:
    cache = Cache()
    cache.put(SLICES, _at(9, slice_().meta(uid="new")))
    assert cache.drop(SLICES, "team/s", "old") is None
    assert "team/s" in cache.slices


def test_remade_under_its_name() -> None:
    cache = Cache()
    cache.put(SLICES, _at(1, slice_()))
    cache.drop(SLICES, "team/s", "uid-s")
    assert cache.put(SLICES, _at(5, slice_().meta(uid="new"))) is not None


def test_what_can_t_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache()
    body = slice_().body()
    del body["spec"]["instanceType"]
    with caplog.at_level(logging.WARNING):
        assert cache.put(SLICES, body) is None
    assert "slices s can't be read" in caplog.text


def test_all_that_belongs_to_a_slice() -> None:
    cache = Cache()
    for kind, built in (
        (IRIS_CLUSTERS, cluster()), (SLICES, slice_()), (SLICES, slice_("other")), (NODEPOOLS, node_pool()),
        (NODEPOOLS, node_pool("other")), (NODES, node()), (NODES, node("other")), (PODS, worker()),
        (PODS, worker("other")), (LEASES, lease()), (LEASES, lease("other")), (TASKS, task("a").bound()),
        (TASKS, task("b").bound("other")), (TASKS, task("c")), (TASKS, task("d").bound().phase("Failed")),
    ):  # fmt: skip
        cache.put(kind, built.body())
    view = cache.slice_view(cache.slices["team/s"])
    assert view.node_pool is not None and view.node_pool.metadata.name == "team-s"
    assert [one.metadata.name for one in view.nodes] == ["s-n0"]
    assert list(view.pods) == ["s-worker-0"] == list(view.leases)
    assert [one.metadata.name for one in view.tasks] == ["a"]
    assert view.settings == cluster().build().spec


def test_an_ended_task_takes_no_part() -> None:
    cache = Cache()
    cache.put(TASKS, _at(1, task("a").bound()))
    assert [one.metadata.name for one in cache.placement_view("team").tasks] == ["a"]
    cache.put(TASKS, _at(2, task("a").bound().phase("Succeeded")))
    assert cache.placement_view("team").tasks == ()
    assert "team/a" in cache.tasks


def test_dropped_objects_leave_the_views() -> None:
    cache = Cache()
    for kind, built in ((SLICES, slice_()), (NODES, node()), (PODS, worker()), (TASKS, task("a").bound())):
        cache.put(kind, built.body())
    cache.drop(NODES, "/s-n0", "uid-s-n0")
    cache.drop(PODS, "team/s-worker-0", "uid-s-worker-0")
    cache.drop(TASKS, "team/a", "uid-a")
    view = cache.slice_view(cache.slices["team/s"])
    assert (view.nodes, view.pods, view.tasks) == ((), {}, ())


def test_the_very_worker() -> None:
    cache = Cache()
    bound = task("a").bound().build()
    assert not cache.worker_exists(bound)
    cache.put(PODS, worker().body())
    assert cache.worker_exists(bound)
    assert not cache.worker_exists(task("a").bound(workerUid="before").build())
    assert not cache.worker_exists(task("a").build())


def test_a_slice_s_tasks_follow_their_binding() -> None:
    cache = Cache()
    cache.put(TASKS, _at(1, task("a").bound("s")))
    cache.put(TASKS, _at(1, task("b").bound("s")))
    cache.put(TASKS, _at(2, task("a").bound("t")))
    cache.put(TASKS, _at(2, task("b")))
    assert [one.metadata.name for one in cache.tasks_on("team", "t")] == ["a"]
    assert list(cache.tasks_on("team", "s")) == []
    cache.put(TASKS, _at(3, task("a").bound("t").phase("Succeeded")))
    assert list(cache.tasks_on("team", "t")) == []
    cache.put(TASKS, _at(3, task("b").bound("t")))
    cache.drop(TASKS, "team/b", "uid-b")
    assert list(cache.tasks_on("team", "t")) == []


def test_a_slice_by_the_label_of_its_nodes() -> None:
    cache = Cache()
    assert cache.slice_by_id("team-s") == ""
    cache.put(SLICES, _at(1, slice_()))
    assert cache.slice_by_id("team-s") == "team/s"
    cache.drop(SLICES, "team/s", "uid-s")
    assert cache.slice_by_id("team-s") == ""


def test_a_slice_knows_how_long_its_group_s_boots_took() -> None:
    cache = Cache()
    boots = [{"sliceName": "x", "seconds": 1020}, {"sliceName": "y", "seconds": 1200}]
    cache.put(SCALE_GROUPS, _at(1, group("g").status(recentBoots=boots)))
    assert cache.slice_view(group_member("g", "s").build()).boots == (1020, 1200)
    assert cache.slice_view(slice_().build()).boots == ()
