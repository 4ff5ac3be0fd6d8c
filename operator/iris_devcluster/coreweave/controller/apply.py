"""Writes of a plan to the API: finalizers, labels, statuses, Events."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from iris_devcluster.coreweave.controller.watch import Store
from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.model import FINALIZER, GROUP
from iris_devcluster.coreweave.plan import NodePatch, Plan, PoolEvent

log = logging.getLogger(__name__)

POOLS = f"/apis/{GROUP}/v1alpha1/nodepools"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"


class Writer:
    """Each call is idempotent; an object that went away in between is fine."""

    def __init__(self, kube: KubeClient, pools: Store) -> None:
        self._kube = kube
        self._pools = pools

    async def before_steps(self, plan: Plan) -> None:
        """Finalizers: a NodePool that holds machines must not vanish."""
        for name in plan.add_finalizer:
            await self._finalizers(name, add=True)

    async def after_steps(self, plan: Plan) -> None:
        """What users see, and at last the NodePools that have nothing left."""
        for patch in plan.node_patches:
            await self._patch_node(patch)
        for name, status in plan.statuses.items():
            await self._patch_pool(name, "/status", {"status": status})
        for event in plan.events:
            await self._event(event)
        for name in plan.drop_finalizer:
            await self._finalizers(name, add=False)

    async def _finalizers(self, name: str, *, add: bool) -> None:
        meta = self._pools.items[name]["metadata"]
        others = [one for one in meta.get("finalizers") or [] if one != FINALIZER]
        wanted = [*others, FINALIZER] if add else others
        version = meta["resourceVersion"]  # someone else's finalizer, added meanwhile, must not be lost
        await self._patch_pool(name, "", {"metadata": {"finalizers": wanted, "resourceVersion": version}})

    async def _patch_pool(self, name: str, subresource: str, patch: dict[str, Any]) -> None:
        try:
            self._pools.put(await self._kube.merge(f"{POOLS}/{name}{subresource}", patch))
        except KubeError as error:
            # A conflict or a refusal: the next plan starts from what is then true.
            if error.status not in (403, 404, 409, 422):
                raise
            log.info("NodePool %s: %s", name, error)

    async def _patch_node(self, patch: NodePatch) -> None:
        metadata = {"labels": dict(patch.labels), "annotations": dict(patch.annotations)}
        try:
            await self._kube.merge(f"{NODES}/{patch.node}", {"metadata": metadata})
        except KubeError as error:
            if error.status != 404:
                raise

    async def _event(self, event: PoolEvent) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        log.info("NodePool %s: %s: %s", event.pool, event.reason, event.message)
        await self._kube.create(
            EVENTS,
            {
                "metadata": {"generateName": f"{event.pool[:200]}.", "namespace": "default"},
                "involvedObject": {
                    "apiVersion": f"{GROUP}/v1alpha1",
                    "kind": "NodePool",
                    "name": event.pool,
                    "uid": event.uid,
                },
                "reason": event.reason,
                "message": event.message,
                "type": "Warning" if event.warning else "Normal",
                "source": {"component": "coreweave-simulator"},
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
                "count": 1,
            },
        )
