"""Reconcile the IrisClusters of one namespace: their status, their finalizer, the NodePool API."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from iris_operator.api.cluster import IrisCluster
from iris_operator.api.names import FINALIZER_CLUSTER
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.controller.writer import Writer
from iris_operator.plan.cluster_status import NodePoolAccess, plan_cluster_status
from iris_operator.plan.placement.placement import free_by_slot
from iris_operator.plan.settings import NoCluster
from iris_operator.ports.errors import ApiError, ForbiddenError, NotFoundError
from iris_operator.ports.kube import IRIS_CLUSTERS, NODEPOOLS, KubeApi

log = logging.getLogger(__name__)

_RECHECK_SECONDS = 60.0
_ACCESS_FOR = timedelta(seconds=10)


async def node_pool_access(api: KubeApi) -> NodePoolAccess:
    """Ask the NodePool API once."""
    try:
        await api.list(NODEPOOLS)
    except NotFoundError:
        return NodePoolAccess(False, "NodePoolAPIMissing", "this cluster has no NodePool API: is it CoreWeave's CKS?")
    except ForbiddenError as error:
        return NodePoolAccess(False, "NodePoolAPIForbidden", f"the operator may not use NodePools: {error.message}")
    except ApiError as error:
        return NodePoolAccess(False, "NodePoolAPIUnavailable", f"the NodePool API does not answer: {error}")
    return NodePoolAccess(True, "Available", "the NodePool API answers and may be used")


class ClusterReconciler:
    """Counts, and says whether slices can be made."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._writer = Writer(controller)
        self._access: NodePoolAccess | None = None
        self._asked_at: datetime | None = None

    async def reconcile(self, key: Key) -> None:
        """All IrisClusters of the namespace `key.name`."""
        access = await self._node_pool_access()
        for cluster in [one for one in self._controller.cache.clusters.values() if one.metadata.namespace == key.name]:
            await self._reconcile(cluster, access)
        self._controller.queue.add_after(key, _RECHECK_SECONDS)

    async def _node_pool_access(self) -> NodePoolAccess:
        """Asked every ten seconds at most while it is usable: counts change far more often."""
        now = self._controller.now()
        fresh = self._asked_at is not None and now - self._asked_at < _ACCESS_FOR
        if self._access is None or not self._access.usable or not fresh:
            self._access, self._asked_at = await node_pool_access(self._controller.api), now
        return self._access

    async def _reconcile(self, cluster: IrisCluster, access: NodePoolAccess) -> None:
        cache = self._controller.cache
        namespace = cluster.metadata.namespace
        slices = [
            one
            for one in cache.slices.values()
            if one.metadata.namespace == namespace and self._under(cluster, one.spec.cluster_name)
        ]
        tasks = (
            one
            for one in cache.tasks.values()
            if one.metadata.namespace == namespace and self._under(cluster, one.spec.cluster_name)
        )
        slots = (
            slot for slot in free_by_slot(cache.placement_view(namespace)) if slot.cluster == cluster.metadata.name
        )
        status = plan_cluster_status(
            cluster, slices, tasks, slots, access, self._controller.version, self._controller.now()
        )
        held = FINALIZER_CLUSTER in cluster.metadata.finalizers
        if not cluster.deleting and not held:  # first: it must wait for its slices from when it says Ready
            await self._writer.add_finalizer(IRIS_CLUSTERS, cluster, FINALIZER_CLUSTER)
        await self._writer.status(IRIS_CLUSTERS, cluster, cluster.status, status)
        current = cache.clusters.get(cluster.key, cluster)
        if current.deleting and held and not slices:
            await self._writer.remove_finalizer(IRIS_CLUSTERS, current, FINALIZER_CLUSTER)

    def _under(self, cluster: IrisCluster, name: str) -> bool:
        found = self._controller.cache.cluster_of(cluster.metadata.namespace, name)
        return not isinstance(found, NoCluster) and found.metadata.uid == cluster.metadata.uid
