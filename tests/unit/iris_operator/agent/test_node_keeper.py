"""The node's own affairs in a whole agent: settings that change, a full disk told, the number of Tasks, leftovers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.node.disk import Disk
from iris_operator.agent.node.settings import Settings
from iris_operator.api.names import ANNOTATION_DISK_PRESSURE
from iris_operator.ports.errors import UnavailableError
from iris_operator.ports.kube import IRIS_CLUSTERS, TASKS, Kind, Listing
from iris_runtimes.image_gc import DiskUse
from tests.builders import cluster
from tests.unit.iris_operator.agent.harness import Node, until


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr("iris_operator.agent.node.settings.ASK_SECONDS", 0.02)
    monkeypatch.setattr("iris_operator.agent.node.images._BETWEEN_LOOKS_SECONDS", 0.01)
    found = Node(tmp_path)
    await found.set_up()
    return found


async def _settings(node: Node, **spec: Any) -> None:
    await node.api.create(IRIS_CLUSTERS, cluster(**spec).body(), "default")


async def _said_of_disk(node: Node) -> str:
    return str((await node.lease())["metadata"]["annotations"].get(ANNOTATION_DISK_PRESSURE) or "")


async def test_a_full_disk_is_on_the_lease_until_it_has_room(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    use = DiskUse(100, 96)
    monkeypatch.setattr(
        "iris_operator.agent.node.images.ImagesKeeper._measure_all", lambda _: [Disk("images", use, DiskUse(100, 1))]
    )
    async with node.agent():
        async with asyncio.timeout(10):
            while "96 % full" not in await _said_of_disk(node):
                await asyncio.sleep(0.01)
        use = DiskUse(100, 50)
        await node.bind("t", ("sleep",))  # something happens: then it looks
        async with asyncio.timeout(10):
            while await _said_of_disk(node):
                await asyncio.sleep(0.01)


async def test_over_the_number_a_task_waits_and_says_why(node: Node) -> None:
    await _settings(node, worker={"maxTasks": 1})
    async with node.agent() as agent:
        await until(lambda: agent._node.settings.spec.worker.max_tasks == 1)
        first = await node.bind("first", ("sleep",))
        await node.phase("Running", "first")
        await node.bind("second", ("sleep",))
        await until(lambda: agent._node.settings.spec.worker.max_tasks == 1)
        async with asyncio.timeout(20):
            while "TooManyTasks" not in str(await node.task("second")):
                await asyncio.sleep(0.01)
        assert "node node-1 runs 1 of 1 Tasks (worker.maxTasks)" in str(await node.task("second"))
        node.runtime.finish(f"task-{first}-1")
        await node.phase("Running", "second")


async def test_logs_of_a_task_that_was_deleted_elsewhere_go_in_time(node: Node) -> None:
    async with node.agent() as agent:
        uid = await node.bind("t", ("sleep",))
        await node.phase("Running")
        folder = node.write_log(uid, "here\n")
        await node.stop("SliceDrained")
        await node.over()
        await node.unbind()
        await until(lambda: not agent._store.tasks)
        await agent._node.look_for_leftovers()
        await asyncio.sleep(0.05)
        assert folder.exists()  # it may be asked for: the Task is there
        await node.api.delete(TASKS, "t", "default")
        await asyncio.sleep(0.05)
        assert folder.exists()  # nobody told this node
        await agent._node.look_for_leftovers()
        await until(lambda: not folder.exists())


async def test_leftovers_are_asked_for_in_turn(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_operator.agent.node.keeper._LEFTOVERS_AT_ONCE", 2)
    async with node.agent() as agent:
        for name in "abc":
            node.write_log(f"uid-{name}", "x")
        marked: list[str] = []
        agent._node._mark = marked.append
        for _ in range(3):
            await agent._node.look_for_leftovers()
    assert marked == ["uid-a", "uid-b", "uid-c", "uid-a", "uid-b"]


class _Clusters:
    """An API of which only IrisClusters are asked."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.down = False

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        assert (kind, namespace) == (IRIS_CLUSTERS, "team")
        if self.down:
            raise UnavailableError(503, "Unavailable", "away")
        return Listing(self.bodies, "1")


async def test_settings(caplog: pytest.LogCaptureFixture) -> None:
    api, changes = _Clusters(), []
    settings = Settings(api, "team", "mine", lambda: changes.append(settings.spec.worker.max_tasks))  # type: ignore[arg-type]
    await settings.refresh()
    assert settings.spec.worker.max_tasks == 256  # the default, as long as nothing else is known
    api.bodies = [cluster("mine", worker={"maxTasks": 7}).body(), cluster("other", worker={"maxTasks": 9}).body()]
    await settings.refresh()
    await settings.refresh()
    assert changes == [7]
    api.down = True
    await settings.refresh()
    await settings.refresh()
    assert settings.spec.worker.max_tasks == 7
    assert sum("away" in one.message for one in caplog.records) == 1
