"""What surrounds the operator, played by the test on a bare API server: the vendor, kubelets and agents.

Each of them can be held up, so that a test sees what the operator does meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from iris_devcluster.coreweave.testing import eventually
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.ports.errors import ConflictError, NotFoundError, UnavailableError
from iris_operator.ports.kube import EVENTS, IRIS_CLUSTERS, LEASES, NODEPOOLS, NODES, PODS, SLICES, TASKS, Kind

Body = dict[str, Any]

_VENDOR = "test.coreweave.com/nodes"
_POOL_LABEL = "compute.coreweave.com/node-pool"
_NAMES = {IRIS_CLUSTERS: "IrisCluster", SLICES: "Slice", TASKS: "Task"}


class World:
    """One namespace's surroundings. The switches are read at every turn."""

    def __init__(self, api: KubeClient, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.boots = True  # the vendor boots nodes
        self.rejects: set[str] = set()  # slices whose NodePools the vendor finds invalid
        self.releases = True  # the vendor lets deleted NodePools go
        self.runs = True  # kubelets start Pods, agents register
        self.ends = True  # kubelets end Pods that were deleted
        self.beats = True  # agents renew their Leases
        self.gpus = 8  # of each node that is booted
        self._leases: set[str] = set()

    @asynccontextmanager
    async def turning(self) -> AsyncIterator[World]:
        """Play until the block ends."""
        task = asyncio.create_task(self._turn_for_ever())
        try:
            yield self
            assert not task.done(), task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def make(self, kind: Kind, name: str, spec: Body, **metadata: Any) -> Body:
        """A user's create."""
        body = {"apiVersion": kind.api_version, "kind": _NAMES.get(kind, "ScaleGroup"), "spec": spec}
        return await self.api.create(kind, {**body, "metadata": {"name": name, **metadata}}, self.namespace)

    async def find(self, kind: Kind, name: str) -> Body:
        """The object; empty when there is none."""
        try:
            return await self.api.get(kind, name, self.namespace)
        except NotFoundError:
            return {}

    async def all(self, kind: Kind) -> list[Body]:
        """Those that are the namespace's, NodePools and Nodes included."""
        found = (await self.api.list(kind, self.namespace)).items
        return [one for one in found if kind.namespaced or one["metadata"]["name"].startswith(f"{self.namespace}-")]

    async def phase(self, kind: Kind, name: str, wanted: str, seconds: float = 20) -> Body:
        """Wait for a phase; the object."""

        async def reached() -> Body | None:
            last = await self.find(kind, name)
            return last if last.get("status", {}).get("phase") == wanted else None

        try:
            found = await eventually(reached, seconds)
        except AssertionError:
            raise AssertionError(f"no {wanted}: {await self.find(kind, name)}") from None
        assert found is not None
        return found

    async def gone(self, kind: Kind, name: str, seconds: float = 20) -> None:
        """Wait until it is."""

        async def is_gone() -> bool:
            return not await self.find(kind, name)

        try:
            await eventually(is_gone, seconds)
        except AssertionError:
            raise AssertionError(f"still there: {await self.find(kind, name)}") from None

    async def bound(self, name: str, seconds: float = 20) -> Body:
        """Wait until a Task is; the Task."""

        async def has_binding() -> Body | None:
            found = await self.find(TASKS, name)
            return found if found["spec"].get("binding") else None

        found = await eventually(has_binding, seconds)
        assert found is not None
        return found

    async def agent_says(self, name: str, phase: str, **status: Any) -> None:
        """An agent's word on a Task; an ended one is let go."""
        body = {"status": {"phase": phase, "attempt": 1, **status}}
        await self.api.patch(TASKS, name, body, namespace=self.namespace, subresource="status")

    async def agent_lets_go(self, name: str) -> None:
        """An agent takes the Task's finalizer off."""
        body = await self.api.get(TASKS, name, self.namespace)
        left = [one for one in body["metadata"].get("finalizers", []) if one != FINALIZER_TASK]
        await self.api.patch(TASKS, name, {"metadata": {"finalizers": left}}, namespace=self.namespace)

    async def worker_vanishes(self, name: str) -> None:
        """As after `kubectl delete pod --force`; it is gone once its kubelet has ended it (`ends`), or its node is."""
        await self.api.delete(PODS, name, self.namespace, grace_seconds=0)

    async def lease_runs_out(self) -> None:
        """That of the operator which was killed, sooner than by itself."""
        with suppress(NotFoundError):
            await self.api.delete(LEASES, "iris-operator", self.namespace)

    async def event_reasons(self, name: str) -> list[str]:
        """Of the Events on one object."""
        items = (await self.api.list(EVENTS, self.namespace)).items
        return [one["reason"] for one in items if one.get("regarding", {}).get("name") == name]

    async def _turn_for_ever(self) -> None:
        while True:
            with suppress(UnavailableError):  # a busy machine; another turn comes
                await self._turn()
            await asyncio.sleep(0.05)

    async def _turn(self) -> None:
        with suppress(NotFoundError, ConflictError):
            for pool in await self.all(NODEPOOLS):
                await self._vendor(pool)
        for pod in (await self.api.list(PODS, self.namespace, labels="iris-managed=true")).items:
            with suppress(NotFoundError, ConflictError):
                await self._kubelet(pod)

    async def _vendor(self, pool: Body) -> None:
        name = pool["metadata"]["name"]
        if pool["metadata"].get("deletionTimestamp"):
            if self.releases:
                for node in (await self.api.list(NODES, labels=f"{_POOL_LABEL}={name}")).items:
                    await self.api.delete(NODES, node["metadata"]["name"])
                await self.api.patch(NODEPOOLS, name, {"metadata": {"finalizers": None}})
            return
        if not pool["metadata"].get("finalizers"):
            await self.api.patch(NODEPOOLS, name, {"metadata": {"finalizers": [_VENDOR]}})
            bad = pool["metadata"]["annotations"]["iris.dev/slice"].split("/")[1] in self.rejects
            condition = {
                "type": "Validated",
                "status": "False" if bad else "True",
                "reason": "Told",
                "message": "by the test",
            }
            times = {"lastTransitionTime": _now()}
            body = {"status": {"conditions": [{**condition, **times}]}}
            await self.api.patch(NODEPOOLS, name, body, subresource="status")
        if self.boots:
            spec = pool["spec"]
            for number in range(spec["targetNodes"] if "targetNodes" in spec else 18 * spec["targetRacks"]):
                await self._boot(f"{name}-{number}", {**pool["spec"]["nodeLabels"], _POOL_LABEL: name})

    async def _boot(self, name: str, labels: Body) -> None:
        with suppress(ConflictError):
            await self.api.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            )
            offers = {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": str(self.gpus), "rdma/ib": "8"}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
            status = {"capacity": offers, "allocatable": offers, "conditions": [ready]}
            await self.api.patch(NODES, name, {"status": status}, subresource="status")

    async def _kubelet(self, pod: Body) -> None:
        name, spec = pod["metadata"]["name"], pod["spec"]
        if pod["metadata"].get("deletionTimestamp"):
            if self.ends:  # as a kubelet does it: containers stopped, then the Pod's removal asked for
                over = {"status": {"phase": "Failed"}}
                await self.api.patch(PODS, name, over, namespace=self.namespace, subresource="status")
                await self.api.delete(PODS, name, self.namespace, grace_seconds=0)
            return
        if not self.runs:
            return
        if not spec.get("nodeName"):
            terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
                "nodeSelectorTerms"
            ]
            target = {"apiVersion": "v1", "kind": "Node", "name": terms[0]["matchFields"][0]["values"][0]}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            await self.api.request("POST", PODS.path(self.namespace, name, "binding"), body=binding)
            ready = {"type": "Ready", "status": "True"}
            status = {
                "status": {
                    "phase": "Running",
                    "conditions": [ready],
                    "hostIP": "10.0.0.9",
                    "hostIPs": [{"ip": "10.0.0.9"}],
                }
            }
            await self.api.patch(PODS, name, status, namespace=self.namespace, subresource="status")
        await self._agent(pod)

    async def _agent(self, pod: Body) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        spec = {"holderIdentity": uid, "renewTime": _now(micro=True), "leaseDurationSeconds": 40}
        if uid in self._leases and not self.beats:
            return
        if uid in self._leases:
            await self.api.patch(LEASES, name, {"spec": spec}, namespace=self.namespace)
            return
        labels = {"iris-managed": "true", "iris.dev/slice": pod["metadata"]["labels"]["iris.dev/slice"]}
        notes = {"iris.dev/agent-version": "test"}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": name, "labels": labels, "annotations": notes},
        }
        await self.api.apply(LEASES, {**body, "spec": spec}, manager="test-agent", namespace=self.namespace)
        self._leases.add(uid)


def _now(micro: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
