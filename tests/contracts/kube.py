"""What every KubeApi does. Subclass with an `api` and a `namespace` fixture; the CRDs of iris.dev are installed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from iris_operator.ports.errors import ConflictError, InvalidError, NotFoundError
from iris_operator.ports.kube import LEASES, TASKS, KubeApi, WatchEvent

HELD = "iris.dev/task"


def task_body(name: str, **metadata: Any) -> dict[str, Any]:
    """A minimal Task."""
    return {
        "apiVersion": TASKS.api_version,
        "kind": "Task",
        "metadata": {"name": name, **metadata},
        "spec": {"image": "registry.test/task:1"},
    }


def binding(node: str) -> dict[str, Any]:
    """spec.binding on a node."""
    return {
        "sliceName": "s", "nodeName": node, "workerPod": "s-worker-0", "workerUid": "u", "rank": 0, "attempt": 1,
        "boundAt": "2026-11-21T10:00:00Z", "stopReason": "",
    }  # fmt: skip


async def first(events: AsyncIterator[WatchEvent], count: int) -> list[WatchEvent]:
    """The next events but bookmarks."""
    found: list[WatchEvent] = []
    async with asyncio.timeout(20):
        async with contextlib.aclosing(events) as stream:  # type: ignore[type-var]
            async for event in stream:
                if event.type != "BOOKMARK":
                    found.append(event)
                if len(found) == count:
                    break
    return found


class KubeContract:
    """The bodies."""

    async def test_create_gives_identity(self, api: KubeApi, namespace: str) -> None:
        made = await api.create(TASKS, task_body("t"), namespace)
        assert made["metadata"]["uid"]
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["namespace"] == namespace
        assert made == await api.get(TASKS, "t", namespace)

    async def test_create_twice_conflicts(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("t"), namespace)
        with pytest.raises(ConflictError) as caught:
            await api.create(TASKS, task_body("t"), namespace)
        assert caught.value.reason == "AlreadyExists"

    async def test_create_generates_names(self, api: KubeApi, namespace: str) -> None:
        body = task_body("")
        body["metadata"] = {"generateName": "run-"}
        names = {(await api.create(TASKS, body, namespace))["metadata"]["name"] for _ in range(2)}
        assert len(names) == 2
        assert all(name.startswith("run-") for name in names)

    async def test_create_drops_status(self, api: KubeApi, namespace: str) -> None:
        made = await api.create(TASKS, {**task_body("t"), "status": {"message": "mine"}}, namespace)
        assert "status" not in made

    async def test_absent_is_not_found(self, api: KubeApi, namespace: str) -> None:
        with pytest.raises(NotFoundError):
            await api.get(TASKS, "absent", namespace)
        with pytest.raises(NotFoundError):
            await api.patch(TASKS, "absent", {"metadata": {}}, namespace=namespace)
        with pytest.raises(NotFoundError):
            await api.delete(TASKS, "absent", namespace)

    async def test_list_selects_by_label_and_field(self, api: KubeApi, namespace: str) -> None:
        for name, node in (("a", "n1"), ("b", "n2"), ("c", "n1")):
            body = task_body(name, labels={"which": name})
            body["spec"]["binding"] = binding(node)
            await api.create(TASKS, body, namespace)
        on_node = await api.list(TASKS, namespace, fields="spec.binding.nodeName=n1")
        assert [item["metadata"]["name"] for item in on_node.items] == ["a", "c"]
        both = await api.list(TASKS, namespace, fields="spec.binding.nodeName=n1", labels="which=c")
        assert [item["metadata"]["name"] for item in both.items] == ["c"]

    async def test_patch_merges_and_removes(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("t", labels={"a": "1", "b": "2"}), namespace)
        patched = await api.patch(TASKS, "t", {"metadata": {"labels": {"a": None, "c": "3"}}}, namespace=namespace)
        assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}
        assert patched["metadata"]["generation"] == 1

    async def test_spec_change_counts_generation(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("t"), namespace)
        patched = await api.patch(TASKS, "t", {"spec": {"binding": binding("n")}}, namespace=namespace)
        assert patched["metadata"]["generation"] == 2

    async def test_patch_of_an_old_version_conflicts(self, api: KubeApi, namespace: str) -> None:
        made = await api.create(TASKS, task_body("t"), namespace)
        await api.patch(TASKS, "t", {"metadata": {"labels": {"x": "y"}}}, namespace=namespace)
        old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
        for subresource, change in (
            ("", {"spec": {"binding": binding("n")}}),
            ("status", {"status": {"message": "m"}}),
        ):
            with pytest.raises(ConflictError):
                await api.patch(TASKS, "t", {**old, **change}, namespace=namespace, subresource=subresource)

    async def test_uid_guards_the_main_resource_but_not_its_status(self, api: KubeApi, namespace: str) -> None:
        made = await api.create(TASKS, task_body("t"), namespace)
        other = {"uid": "00000000-0000-0000-0000-000000000000"}
        with pytest.raises(InvalidError):
            await api.patch(TASKS, "t", {"metadata": {**other, "labels": {"a": "b"}}}, namespace=namespace)
        said = await api.patch(
            TASKS, "t", {"metadata": other, "status": {"message": "m"}}, namespace=namespace, subresource="status"
        )
        assert said["metadata"]["uid"] == made["metadata"]["uid"]
        assert said["status"]["message"] == "m"

    async def test_status_and_spec_are_written_apart(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("t"), namespace)
        both = {"spec": {"binding": binding("n")}, "status": {"message": "m"}}
        by_status = await api.patch(TASKS, "t", both, namespace=namespace, subresource="status")
        assert "binding" not in by_status["spec"]
        by_main = await api.patch(
            TASKS, "t", {"spec": {"binding": binding("n")}, "status": {"message": "other"}}, namespace=namespace
        )
        assert by_main["status"]["message"] == "m"
        assert by_main["spec"]["binding"]["nodeName"] == "n"

    async def test_patch_without_change_keeps_the_version(self, api: KubeApi, namespace: str) -> None:
        made = await api.create(TASKS, task_body("t", labels={"a": "1"}), namespace)
        again = await api.patch(TASKS, "t", {"metadata": {"labels": {"a": "1"}}}, namespace=namespace)
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    async def test_finalizers_hold_a_deletion(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("t", finalizers=[HELD]), namespace)
        await api.delete(TASKS, "t", namespace)
        deleting = await api.get(TASKS, "t", namespace)
        assert deleting["metadata"]["deletionTimestamp"]
        # A trap: it says nothing of anyone's wish.
        assert deleting["metadata"]["deletionGracePeriodSeconds"] == 0
        last = await api.patch(TASKS, "t", {"metadata": {"finalizers": []}}, namespace=namespace)
        assert not last["metadata"].get("finalizers")
        with pytest.raises(NotFoundError):
            await api.get(TASKS, "t", namespace)

    async def test_delete_of_another_uid_conflicts(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("t"), namespace)
        with pytest.raises(ConflictError):
            await api.delete(TASKS, "t", namespace, uid="00000000-0000-0000-0000-000000000000")
        await api.get(TASKS, "t", namespace)

    async def test_delete_of_another_version_conflicts(self, api: KubeApi, namespace: str) -> None:
        made = await api.create(TASKS, task_body("t"), namespace)
        changed = await api.patch(TASKS, "t", {"metadata": {"labels": {"a": "1"}}}, namespace=namespace)
        with pytest.raises(ConflictError):
            await api.delete(TASKS, "t", namespace, resource_version=made["metadata"]["resourceVersion"])
        await api.delete(TASKS, "t", namespace, resource_version=changed["metadata"]["resourceVersion"])
        with pytest.raises(NotFoundError):
            await api.get(TASKS, "t", namespace)

    async def test_apply_creates_then_changes(self, api: KubeApi, namespace: str) -> None:
        body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "l", "labels": {"a": "1"}}}
        made = await api.apply(LEASES, body, manager="test", namespace=namespace)
        body["metadata"] = {"name": "l", "labels": {"a": "2"}}
        changed = await api.apply(LEASES, body, manager="test", namespace=namespace)
        assert changed["metadata"]["uid"] == made["metadata"]["uid"]
        assert changed["metadata"]["labels"] == {"a": "2"}

    async def test_null_annotations_are_dropped_on_create(self, api: KubeApi, namespace: str) -> None:
        body = {
            "apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "l", "annotations": {"b": "1"}},
            "spec": {"holderIdentity": "me", "renewTime": "2026-11-21T10:00:00.000001Z"},
        }  # fmt: skip
        made = await api.create(LEASES, body, namespace)
        assert made["spec"]["renewTime"] == "2026-11-21T10:00:00.000001Z"
        patched = await api.patch(LEASES, "l", {"metadata": {"annotations": {"b": None}}}, namespace=namespace)
        assert not patched["metadata"].get("annotations")

    async def test_watch_tells_what_follows_the_list(self, api: KubeApi, namespace: str) -> None:
        await api.create(TASKS, task_body("before"), namespace)
        version = (await api.list(TASKS, namespace)).resource_version
        await api.create(TASKS, task_body("t"), namespace)
        await api.patch(TASKS, "t", {"status": {"message": "m"}}, namespace=namespace, subresource="status")
        await api.delete(TASKS, "t", namespace)
        events = await first(api.watch(TASKS, namespace, resource_version=version), 3)
        assert [(event.type, event.body["metadata"]["name"]) for event in events] == [
            ("ADDED", "t"),
            ("MODIFIED", "t"),
            ("DELETED", "t"),
        ]
        versions = [int(event.body["metadata"]["resourceVersion"]) for event in events]
        assert versions == sorted(set(versions))

    async def test_watch_follows_a_selector(self, api: KubeApi, namespace: str) -> None:
        version = (await api.list(TASKS, namespace)).resource_version
        await api.create(TASKS, task_body("t"), namespace)
        await api.patch(TASKS, "t", {"spec": {"binding": binding("n1")}}, namespace=namespace)
        await api.patch(TASKS, "t", {"spec": {"binding": binding("n2")}}, namespace=namespace)
        watching = api.watch(TASKS, namespace, resource_version=version, fields="spec.binding.nodeName=n1")
        assert [event.type for event in await first(watching, 2)] == ["ADDED", "DELETED"]

    async def test_watch_waits(self, api: KubeApi, namespace: str) -> None:
        version = (await api.list(TASKS, namespace)).resource_version
        waiting = asyncio.create_task(first(api.watch(TASKS, namespace, resource_version=version), 1))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await api.create(TASKS, task_body("t"), namespace)
        assert (await waiting)[0].type == "ADDED"
