"""Everything around the operator for a fleet of slices, played on a bare API server: CoreWeave, kubelets, agents.

No node is real: NodePools and Nodes have only a status, Pods are bound and said to run, agents are their Leases. Told by
watches, so that it takes as little as can be from what is measured. Counts its own requests.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.informer import Informer
from iris_operator.api.names import ANNOTATION_AGENT_VERSION, LABEL_MANAGED, LABEL_SLICE, MANAGED_SELECTOR
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import LEASES, NODEPOOLS, NODES, PODS, Body, Kind

RENEW_SECONDS = 10.0
_POOL_LABEL = "compute.coreweave.com/node-pool"
_OFFERS = {"cpu": "128", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8", "rdma/ib": "8"}
_WORKERS = 16


class FleetWorld:
    """Plays until the block of `playing` ends."""

    def __init__(self, api: KubeClient, namespace: str) -> None:
        self.requests: Counter[str] = Counter()
        self._api, self._namespace = api, namespace
        self._done: set[str] = set()
        self._leases: dict[str, str] = {}
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._renewals: deque[str] = deque()

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[FleetWorld]:
        """Play until the block ends."""
        pools = Informer(self._api, NODEPOOLS, None, self._pool_changed)
        pods = Informer(self._api, PODS, self._namespace, self._pod_changed, labels=MANAGED_SELECTOR)
        running = [asyncio.create_task(one.run()) for one in (pools, pods)]
        running += [asyncio.create_task(self._carry_out()) for _ in range(_WORKERS)]
        running.append(asyncio.create_task(self._renew_for_ever()))
        try:
            await asyncio.gather(pools.synced.wait(), pods.synced.wait())
            yield self
            for task in running:
                if task.done():
                    task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _pool_changed(self, pool: Body, gone: bool) -> None:
        uid = pool["metadata"]["uid"]
        if gone:
            self._work.put_nowait(lambda: self._take_nodes(pool))
        elif uid not in self._done:
            self._done.add(uid)
            self._work.put_nowait(lambda: self._boot(pool))

    def _pod_changed(self, pod: Body, gone: bool) -> None:
        uid = pod["metadata"]["uid"]
        if gone:
            self._leases.pop(pod["metadata"]["name"], None)
        elif pod["metadata"].get("deletionTimestamp"):
            if f"{uid}/end" not in self._done:
                self._done.add(f"{uid}/end")
                self._work.put_nowait(lambda: self._end(pod))
        elif uid not in self._done:
            self._done.add(uid)
            self._work.put_nowait(lambda: self._start(pod))

    async def _carry_out(self) -> None:
        while True:
            work = await self._work.get()
            try:
                await work()
            except (NotFoundError, ConflictError):
                continue  # it went meanwhile
            except ApiError:
                await asyncio.sleep(0.5)
                self._work.put_nowait(work)

    async def _boot(self, pool: Body) -> None:
        name, spec = pool["metadata"]["name"], pool["spec"]
        now = _now()
        condition = {"type": "Validated", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": now}
        for number in range(spec["targetNodes"]):
            await self._boot_node(f"{name}-{number}", {**spec["nodeLabels"], _POOL_LABEL: name})
        status = {"conditions": [condition], "currentNodes": spec["targetNodes"], "targetNodes": spec["targetNodes"]}
        await self._patch(NODEPOOLS, name, {"status": status}, "status")

    async def _boot_node(self, name: str, labels: Mapping[str, str]) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": dict(labels)}}
        self.requests["create nodes"] += 1
        await self._api.create(NODES, body)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        await self._patch(
            NODES, name, {"status": {"capacity": _OFFERS, "allocatable": _OFFERS, "conditions": [ready]}}, "status"
        )

    async def _take_nodes(self, pool: Body) -> None:
        for number in range(pool["spec"]["targetNodes"]):
            self.requests["delete nodes"] += 1
            await self._api.delete(NODES, f"{pool['metadata']['name']}-{number}")

    async def _start(self, pod: Body) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.requests["create pods/binding"] += 1
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self._api.request("POST", PODS.path(self._namespace, name, "binding"), body=body)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self._patch(PODS, name, {"status": status}, "status")
        labels = {LABEL_MANAGED: "true", LABEL_SLICE: pod["metadata"]["labels"][LABEL_SLICE]}
        metadata = {"name": name, "labels": labels, "annotations": {ANNOTATION_AGENT_VERSION: "fleet"}}
        lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": _lease_spec(uid)}
        self.requests["apply leases"] += 1
        await self._api.apply(LEASES, lease, manager="fleet-agent", namespace=self._namespace)
        self._leases[name] = uid
        self._renewals.append(name)

    async def _end(self, pod: Body) -> None:
        await self._patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, "status")
        self.requests["delete pods"] += 1
        await self._api.delete(PODS, pod["metadata"]["name"], self._namespace, grace_seconds=0)

    async def _renew_for_ever(self) -> None:
        """Each Lease once in RENEW_SECONDS, evenly spread."""
        for turn in itertools.count():
            await asyncio.sleep(RENEW_SECONDS / 100)
            share = -(-len(self._renewals) // 100) if turn % 100 else len(self._renewals) % 100 or 1
            for _ in range(min(share, len(self._renewals))):
                name = self._renewals.popleft()
                if name in self._leases:
                    self._renewals.append(name)
                    self._work.put_nowait(lambda name=name: self._renew(name))  # type: ignore[misc]

    async def _renew(self, name: str) -> None:
        uid = self._leases.get(name)
        if uid is not None:
            await self._patch(LEASES, name, {"spec": _lease_spec(uid)}, namespace=self._namespace)

    async def _patch(self, kind: Kind, name: str, body: Body, subresource: str = "", namespace: str = "") -> None:
        self.requests[f"patch {kind.plural}{'/' if subresource else ''}{subresource}"] += 1
        place = namespace or (self._namespace if kind.namespaced else None)
        await self._api.patch(kind, name, body, namespace=place, subresource=subresource)


def _lease_spec(uid: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": uid, "renewTime": now, "leaseDurationSeconds": 40}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
