"""Carries out what is planned for one Slice, as controller/handlers/slices.py does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iris_operator.api.core import Lease
from iris_operator.api.names import slice_id
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.plan.actions import DeleteSlice, RemoveFinalizer
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.lifecycle import plan_slice
from iris_operator.plan.slices.obstacles import Held
from iris_operator.plan.slices.plan import SlicePlan, lets_go
from iris_operator.plan.slices.snapshot import SliceView
from iris_operator.simulation.process import Key, Operator
from iris_operator.simulation.routing import SLICE
from iris_operator.simulation.slice_actions import SliceActions, nothing_left

Freshen = Callable[[Lease, float], Lease]


class SliceWork:
    """`freshen` gives a Lease its last renewal."""

    def __init__(self, freshen: Freshen, actions: SliceActions) -> None:
        self._freshen, self._actions = freshen, actions

    def __call__(self, operator: Operator, name: str) -> None:
        """Plan, act, then one status write. What can't be done is planned with once more, and tried again later."""
        owner = operator.memory.get(Slice, name)
        if owner is None:
            return
        view = self.view(operator, owner)
        plan = plan_slice(view, operator.now)
        if lets_go(owner, plan) and not nothing_left(operator, owner):
            operator.add(Key(SLICE, name), 1.0)
            return
        held = self._act(plan, owner, operator)
        if any(isinstance(action, RemoveFinalizer | DeleteSlice) for action in plan.actions):
            return
        if plan.actions:
            fresh = self.view(operator, operator.memory.get(Slice, name) or owner)
            if held is not None:
                plan = plan_slice(replace(fresh, obstacle=held.obstacle), operator.now)
            elif fresh.node_pool is not view.node_pool or fresh.pods.keys() != view.pods.keys():
                return  # the next pass, queued by now, has a better word to write
        operator.status(operator.memory.get(Slice, name) or owner, owner.status, plan.status)
        if plan.recheck_seconds is not None:
            operator.add(Key(SLICE, name), plan.recheck_seconds)
        if held is not None and plan.status.phase is not SlicePhase.FAILED:
            if held.error is not None:
                raise held.error
            operator.add(Key(SLICE, name), held.wait_seconds)

    def view(self, operator: Operator, owner: Slice) -> SliceView:
        """All that belongs to one Slice, as the operator knows it."""
        memory = operator.memory
        namespace = owner.metadata.namespace
        cluster = memory.cluster_of(namespace, owner.spec.cluster_name)
        pods = memory.workers_of(owner)
        leases = {pod: memory.get(Lease, f"{namespace}/{pod}") for pod in pods}
        group = memory.get(ScaleGroup, f"{namespace}/{owner.spec.scale_group_name}")
        ahead = operator.pace.lease_ahead_seconds
        return SliceView(
            slice=owner,
            settings=cluster if isinstance(cluster, NoCluster) else cluster.spec,
            node_pool=memory.get(NodePool, f"/{slice_id(namespace, owner.metadata.name)}"),
            nodes=memory.nodes_of(owner),
            pods=pods,
            leases={pod: self._freshen(lease, ahead) for pod, lease in leases.items() if lease is not None},
            tasks=memory.tasks_on(owner),
            boots=tuple(boot.seconds for boot in group.status.recent_boots) if group is not None else (),
        )

    def _act(self, plan: SlicePlan, owner: Slice, operator: Operator) -> Held | None:
        for action in plan.actions:
            try:
                self._actions.do(action, owner, operator)
            except Held as held:
                return held
        return None
