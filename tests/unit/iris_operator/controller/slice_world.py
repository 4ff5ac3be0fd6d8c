"""A slice's surroundings in memory: an API that can refuse and break off, a vendor, kubelets, agents; and the reconcilers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.controller.cache import MODELS
from iris_operator.controller.handlers.orphans import OrphanReconciler
from iris_operator.controller.handlers.slices import SliceReconciler
from iris_operator.controller.handlers.workers import WorkerReconciler
from iris_operator.controller.memo import Controller
from iris_operator.controller.routing import ORPHANS, SLICE, WORKER
from iris_operator.controller.workqueue import Key
from iris_operator.ports.errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from iris_operator.ports.kube import EVENTS, IRIS_CLUSTERS, LEASES, NODEPOOLS, NODES, PODS, SLICES, Body, Kind
from tests.builders import CPU, cluster

T = TypeVar("T")
Reconcile = Callable[[Key], Awaitable[None]]


class Killed(BaseException):
    """The operator is no more; nothing in it may catch this."""


class BreakableKube(FakeKube):
    """Refuses calls on NodePools (`refuses`: verbs), and kills its caller at its n-th write, done or not."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        self.kill_at: int | None = None
        self.kill_after_it_is_done = True
        self.operator_writes: list[tuple[str, str]] = []
        self.by_operator = False  # whose calls these are

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        return await self._step("create", kind, super().create(kind, body, namespace))

    async def apply(self, kind: Kind, body: Body, *, manager: str, namespace: str | None = None) -> dict[str, Any]:
        return await self._step("apply", kind, super().apply(kind, body, manager=manager, namespace=namespace))

    async def patch(
        self, kind: Kind, name: str, patch: Body, *, namespace: str | None = None, subresource: str = ""
    ) -> dict[str, Any]:
        call = super().patch(kind, name, patch, namespace=namespace, subresource=subresource)
        return await self._step(f"patch {subresource}".strip(), kind, call)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        **options: Any,
    ) -> None:
        await self._step("delete", kind, super().delete(kind, name, namespace, **options))

    async def _step(self, verb: str, kind: Kind, call: Coroutine[Any, Any, T]) -> T:
        if not self.by_operator:
            return await call
        if kind is NODEPOOLS and verb in self.refuses:
            call.close()
            raise ForbiddenError(403, "Forbidden", f"no {verb} today")
        self.operator_writes.append((verb, kind.plural))
        mine = self.kill_at is not None and len(self.operator_writes) == self.kill_at
        if mine and not self.kill_after_it_is_done:
            call.close()
            raise Killed
        self.by_operator = False  # the fake may make other calls of itself for this one
        try:
            answer = await call
        finally:
            self.by_operator = True
        if mine:
            raise Killed
        return answer


class SliceWorld:
    """One namespace, `team`."""

    def __init__(self, **settings: Any) -> None:
        self.api = BreakableKube()
        self.time = datetime.now(UTC).replace(microsecond=0)
        self.boots = True
        self._settings = settings
        self.start()

    def start(self) -> Controller:
        """A new operator process: it knows nothing."""
        self.controller = Controller(self.api, ("team",), "1", now=lambda: self.time)
        self._reconcilers: dict[str, Reconcile] = {
            SLICE: SliceReconciler(self.controller).reconcile,
            WORKER: WorkerReconciler(self.controller).reconcile,
            ORPHANS: OrphanReconciler(self.controller).reconcile,
        }
        return self.controller

    async def make(self, name: str = "s", **spec: Any) -> None:
        """A cluster, and a slice by hand."""
        with suppress(ConflictError):
            await self.api.create(IRIS_CLUSTERS, cluster(**self._settings).body(), "team")
        metadata = {"name": name, "namespace": "team"}
        body = {
            "apiVersion": SLICES.api_version,
            "kind": "Slice",
            "metadata": metadata,
            "spec": {"instanceType": CPU, **spec},
        }
        await self.api.create(SLICES, body, "team")

    async def find(self, kind: Kind, name: str) -> dict[str, Any]:
        """The object; empty when there is none."""
        try:
            return await self.api.get(kind, name, "team" if kind.namespaced else None)
        except NotFoundError:
            return {}

    async def status(self, name: str = "s") -> dict[str, Any]:
        """A slice's."""
        found: dict[str, Any] = (await self.find(SLICES, name)).get("status", {})
        return found

    async def condition(self, kind: str, name: str = "s") -> dict[str, Any]:
        """A slice's condition; empty when it has none of that type."""
        rows = (await self.status(name)).get("conditions", [])
        return next((one for one in rows if one["type"] == kind), {})

    async def all(self, kind: Kind) -> list[dict[str, Any]]:
        """All objects of a kind."""
        return (await self.api.list(kind, None)).items

    async def event_reasons(self) -> list[str]:
        """Of all Events."""
        return [one["reason"] for one in await self.all(EVENTS)]

    async def turns(self, number: int = 12) -> list[ApiError]:
        """The world moves, then the operator; so many times. What its reconcilers raised."""
        errors: list[ApiError] = []
        for _ in range(number):
            await self._move()
            errors += await self._operate()
        return errors

    async def reconcile(self, name: str = "s") -> None:
        """The operator looks at one slice, with what it knows."""
        await self._look(Key(SLICE, f"team/{name}"))

    async def look_for_orphans(self) -> None:
        """The operator looks at all NodePools, with what it knows."""
        await self._look(Key(ORPHANS, ""))

    async def _look(self, key: Key) -> None:
        self.api.by_operator = True
        try:
            await self._reconcilers[key.kind](key)
        finally:
            self.api.by_operator = False

    async def _operate(self) -> list[ApiError]:
        errors: list[ApiError] = []
        self.api.by_operator = True
        try:
            await self._watch()
            while len(self.controller.queue):
                key = await self.controller.queue.get()
                self.controller.queue.done(key)
                if key.kind in self._reconcilers:
                    try:
                        await self._reconcilers[key.kind](key)
                    except ApiError as error:
                        errors.append(error)
        finally:
            self.api.by_operator = False
        return errors

    async def _watch(self) -> None:
        """What the watches would have told by now; and every slice is looked at."""
        for kind in MODELS:
            there = {body["metadata"]["uid"]: body for body in (await self.api.list(kind, None)).items}
            for body in there.values():
                self.controller.observe(kind, body)
            for known in list(self.controller.cache.store(kind).values()):
                if known.metadata.uid not in there:
                    self.controller.observe(kind, known.wire(), gone=True)
        for key in [*(Key(SLICE, name) for name in self.controller.cache.slices), Key(ORPHANS, "")]:
            self.controller.queue.add(key)

    async def _move(self) -> None:
        for pool in await self.all(NODEPOOLS):
            await self._vendor(pool)
        for pod in await self.all(PODS):
            with suppress(NotFoundError):
                await self._kubelet(pod)

    async def _vendor(self, pool: dict[str, Any]) -> None:
        name = pool["metadata"]["name"]
        if pool["metadata"].get("deletionTimestamp"):
            for node in await self.all(NODES):
                if node["metadata"]["name"].startswith(name):
                    await self.api.delete(NODES, node["metadata"]["name"])
            await self.api.patch(NODEPOOLS, name, {"metadata": {"finalizers": []}})
            return
        if "iris.dev/slice" not in pool["metadata"].get("annotations", {}):
            return
        await self.api.patch(NODEPOOLS, name, {"metadata": {"finalizers": ["a.vendor/nodes"]}})
        accepted = {
            "status": {"conditions": [{"type": "Validated", "status": "True", "reason": "Valid", "message": ""}]}
        }
        await self.api.patch(NODEPOOLS, name, accepted, subresource="status")
        for rank in range(pool["spec"]["targetNodes"] if self.boots else 0):
            metadata = {"name": f"{name}-{rank}", "labels": pool["spec"]["nodeLabels"]}
            with suppress(ConflictError):
                await self.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
                offers = {"cpu": "4", "memory": "8Gi"}
                status = {"allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]}
                await self.api.patch(NODES, metadata["name"], {"status": status}, subresource="status")

    async def _kubelet(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            ended = {"status": {"phase": "Failed"}}
            await self.api.patch(PODS, name, ended, namespace="team", subresource="status")
            await self.api.patch(PODS, name, {"metadata": {"deletionGracePeriodSeconds": 0}}, namespace="team")
            if not pod["metadata"].get("finalizers"):
                await self.api.delete(PODS, name, "team", grace_seconds=0)
            return
        rank = pod["metadata"]["labels"]["iris.dev/rank"]
        await self.api.patch(PODS, name, {"spec": {"nodeName": f"team-s-{rank}"}}, namespace="team")
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await self.api.patch(PODS, name, ready, namespace="team", subresource="status")
        spec = {"holderIdentity": pod["metadata"]["uid"], "renewTime": self.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        labels = {"iris-managed": "true", "iris.dev/slice": "s"}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        await self.api.apply(LEASES, body, manager="agent", namespace="team")
