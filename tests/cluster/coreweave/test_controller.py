"""The simulator against a real API server; its nodes are only objects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from iris_devcluster.coreweave.controller.apply import NODES, POOLS
from iris_devcluster.coreweave.kube import KubeClient
from iris_devcluster.coreweave.testing import H100, FakeHost, Pools, eventually, reasons, simulation

pytestmark = pytest.mark.cluster

FAST = {"defaults": {"bootSeconds": 0}}


async def wait_counts(pools: Pools, *expected: int) -> None:
    async def there() -> bool:
        return await pools.counts() == expected

    try:
        await eventually(there)
    except AssertionError:
        pytest.fail(f"counts {await pools.counts()}, not {expected}")


async def wait_reason(pools: Pools, kind: str, reason: str) -> None:
    async def there() -> bool:
        return reasons(await pools.status()).get(kind) == reason

    await eventually(there)


async def wait_gone(pools: Pools) -> None:
    async def gone() -> bool:
        return await pools.get() is None

    await eventually(gone)


async def wait_event(pools: Pools, reason: str, times: int = 1) -> None:
    """Events are posted after the status that they are about."""

    async def told() -> bool:
        return (await pools.events()).count(reason) >= times

    await eventually(told)


async def node_names(kube: KubeClient) -> set[str]:
    return {item["metadata"]["name"] for item in (await kube.request("GET", NODES))["items"]}


async def test_from_creation_to_target(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        taint = {"key": "nvidia.com/gpu", "value": "yes", "effect": "NoSchedule"}
        labels = {"iris-managed": "true"}
        await pools.create(
            instanceType=H100, targetNodes=2, nodeLabels=labels, nodeAnnotations={"a": "b"}, nodeTaints=[taint]
        )
        await wait_counts(pools, 2, 0, 0)
        await wait_reason(pools, "AtTarget", "TargetMet")
        found = reasons(await pools.status())
        assert (found["Validated"], found["Quota"], found["Capacity"]) == ("Valid", "Under", "Sufficient")

        async def annotated() -> list[dict[str, Any]]:
            nodes: list[dict[str, Any]] = (await kube.request("GET", NODES))["items"]
            return nodes if all((node["metadata"].get("annotations") or {}).get("a") == "b" for node in nodes) else []

        for node in await eventually(annotated):
            assert node["metadata"]["labels"]["iris-managed"] == "true"
            assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == H100
            assert taint in node["spec"]["taints"]
        await wait_event(pools, "CWNodeRegistered", 2)
        events = await pools.events()
        assert sorted(events) == ["CWNodeAssigned"] * 2 + ["CWNodePoolScaledUp"] + ["CWNodeRegistered"] * 2


async def test_scale_up_and_down(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create(targetNodes=1)
        await wait_counts(pools, 1, 0, 0)
        (first,) = await node_names(kube)
        await pools.patch(targetNodes=3)
        await wait_counts(pools, 3, 0, 0)
        await pools.patch(targetNodes=1)
        await wait_counts(pools, 1, 0, 0)
        assert await node_names(kube) == {first}, "the oldest stays"
        assert host.node_names() == [first]


async def test_idle_only_waits_for_a_node_in_use(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create(targetNodes=1)
        await wait_counts(pools, 1, 0, 0)
        (node,) = await node_names(kube)
        await run_pod(kube, node)
        await pools.patch(targetNodes=0)
        await wait_reason(pools, "AtTarget", "OverTarget")
        await asyncio.sleep(0.5)
        assert await node_names(kube) == {node}
        await kube.request("DELETE", "/api/v1/namespaces/default/pods/busy", {"gracePeriodSeconds": 0})
        await wait_counts(pools, 0, 0, 0)


async def run_pod(kube: KubeClient, node: str) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts"
    if await kube.get(f"{account}/default") is None:  # no controller manager makes it here
        await kube.create(account, {"metadata": {"name": "default"}})
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]}
    await kube.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "busy"}, "spec": spec})


@pytest.mark.parametrize(
    ("rules", "counts", "kind", "reason", "event"),
    [
        ({"quota": 0}, (0, 0, 3), "Quota", "NotSet", "CWOverQuota"),
        ({"quota": 2}, (2, 0, 1), "Quota", "Over", "CWOverQuota"),
        ({"capacity": 0}, (0, 0, 3), "Capacity", "QueuedAwaitingCapacity", "CWInsufficientCapacity"),
        ({"capacity": 1}, (1, 0, 2), "Capacity", "QueuedAwaitingCapacity", "CWInsufficientCapacity"),
    ],
    ids=["no quota", "over quota", "no capacity", "partly filled"],
)
async def test_limits_and_their_end(
    kube: KubeClient,
    host: FakeHost,
    pools: Pools,
    rules: dict[str, int],
    counts: tuple[int, int, int],
    kind: str,
    reason: str,
    event: str,
) -> None:
    await pools.settings(defaults={"bootSeconds": 0, **rules})
    async with simulation(kube, host):
        await pools.create(targetNodes=3)
        await wait_counts(pools, *counts)
        await wait_reason(pools, kind, reason)
        await wait_event(pools, event)
        await pools.settings(**FAST)
        await wait_counts(pools, 3, 0, 0)
        assert (await pools.events()).count(event) == 1


async def test_an_unknown_type_is_invalid_and_can_be_deleted(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    async with simulation(kube, host):
        await pools.create(instanceType="gd-9xnothing")
        await wait_reason(pools, "Validated", "Invalid")
        await wait_event(pools, "CWInvalidNodePool")
        await pools.delete()
        await wait_gone(pools)
    assert host.calls == []


async def test_never_boots_then_does(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(defaults={"bootSeconds": 0}, nodePools={"pool": {"boot": "never"}})
    async with simulation(kube, host):
        await pools.create()
        await wait_counts(pools, 0, 1, 0)
        await asyncio.sleep(0.3)
        assert host.calls == []
        await pools.settings(**FAST)
        await wait_counts(pools, 1, 0, 0)


async def test_deletion_waits_for_the_nodes(kube: KubeClient, tmp_path: Path, pools: Pools) -> None:
    host = _SlowToLeave(kube, tmp_path)
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create(targetNodes=2)
        await wait_counts(pools, 2, 0, 0)
        await pools.delete()
        await wait_reason(pools, "NodesRemoved", "Pending")
        assert len(await node_names(kube)) == 2
        host.may_leave = True
        await wait_gone(pools)
        assert await node_names(kube) == set()
        assert host.node_names() == []


class _SlowToLeave(FakeHost):
    may_leave = False

    def remove_node(self, name: str) -> None:
        if not self.may_leave:
            raise OSError("not yet")  # tried again
        super().remove_node(name)


async def test_deleted_before_it_booted(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(defaults={"bootSeconds": 600})
    async with simulation(kube, host):
        await pools.create(targetNodes=2)
        await wait_counts(pools, 0, 2, 0)
        await pools.delete()
        await wait_gone(pools)
    assert ("boot", "") not in host.calls
    assert all(call == "remove" for call, _ in host.calls)


async def test_a_power_cut_and_its_end(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create()
        await wait_counts(pools, 1, 0, 0)
        (node,) = await node_names(kube)
        await pools.settings(**FAST, nodes={node: {"power": "off"}})
        await eventually(lambda: is_ready(kube, node, "Unknown"))
        assert await pools.counts() == (1, 0, 0)
        await pools.settings(**FAST)
        await eventually(lambda: is_ready(kube, node, "True"))
    assert [call for call, _ in host.calls] == ["boot", "kill", "boot"]


async def test_not_ready_and_ready_again(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create()
        await wait_counts(pools, 1, 0, 0)
        (node,) = await node_names(kube)
        await pools.settings(**FAST, nodes={node: {"power": "frozen"}})
        await eventually(lambda: is_ready(kube, node, "Unknown"))
        await pools.settings(**FAST)
        await eventually(lambda: is_ready(kube, node, "True"))
    assert [call for call, _ in host.calls] == ["boot", "pause", "resume"]


async def is_ready(kube: KubeClient, node: str, status: str) -> bool:
    body = await kube.get(f"{NODES}/{node}")
    assert body is not None
    return any(row["type"] == "Ready" and row["status"] == status for row in body["status"]["conditions"])


async def test_a_dead_node_is_exchanged_when_asked(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create()
        await wait_counts(pools, 1, 0, 0)
        (node,) = await node_names(kube)
        await pools.settings(**FAST, replaceSeconds=0.5, nodes={node: {"power": "off"}})

        async def exchanged() -> bool:
            names = await node_names(kube)
            return bool(names) and node not in names

        await eventually(exchanged)


async def test_a_restart_half_way_adopts(kube: KubeClient, tmp_path: Path, pools: Pools) -> None:
    await pools.settings(**FAST, nodePools={"late": {"boot": "never"}})
    host = FakeHost(kube, tmp_path, boot_seconds=0.5)
    await pools.create(targetNodes=3)
    await pools.create("late", targetNodes=1)
    async with simulation(kube, host):
        await eventually(lambda: _boots(host))
    names = set(host.node_names())
    async with simulation(kube, host):
        await wait_counts(pools, 3, 0, 0)
        await asyncio.sleep(0.3)
        assert await pools.counts("late") == (0, 1, 0)
        assert names <= await node_names(kube)
        assert len(host.boots) == 3, "no machine was assigned twice"
        await pools.delete()
        await pools.delete("late")
        await wait_gone(pools)


async def _boots(host: FakeHost) -> bool:
    return bool(host.calls)


async def test_a_pool_that_went_while_nobody_looked(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create()
        await wait_counts(pools, 1, 0, 0)
    await kube.merge(f"{POOLS}/pool", {"metadata": {"finalizers": None}})
    await pools.delete()
    async with simulation(kube, host):

        async def empty() -> bool:
            return not host.node_names() and not await node_names(kube)

        await eventually(empty)


async def test_nonsense_in_the_settings_is_survived(kube: KubeClient, host: FakeHost, pools: Pools) -> None:
    await pools.settings(**FAST)
    async with simulation(kube, host):
        await pools.create()
        await wait_counts(pools, 1, 0, 0)
        path = "/api/v1/namespaces/kube-system/configmaps/coreweave-simulator"
        await kube.merge(path, {"data": {"settings.yaml": "defaults: {bootSeconds: soon}"}})
        await pools.patch(targetNodes=2)
        await wait_counts(pools, 2, 0, 0)
