"""Views of one Slice for the planners' tests, from builders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.plan.conditions import find_condition
from iris_operator.plan.settings import NoCluster
from iris_operator.plan.slices.plan import SlicePlan
from iris_operator.plan.slices.snapshot import SliceView
from tests.builders import Builder, SliceBuilder, cluster, lease, node, node_pool, slice_, worker


def view(
    owner: Builder[Slice],
    pool: Builder[NodePool] | None = None,
    nodes: Sequence[Builder[Node]] = (),
    pods: Sequence[Builder[Pod]] = (),
    leases: Sequence[Builder[Lease]] = (),
    tasks: Sequence[Builder[Task]] = (),
    settings: IrisClusterSpec | NoCluster | None = None,
    **more: Any,
) -> SliceView:
    """What exists of a Slice. `more`: boots, obstacle, pool_events."""
    built_pods, built_leases = [one.build() for one in pods], [one.build() for one in leases]
    return SliceView(
        slice=owner.build(),
        settings=cluster().build().spec if settings is None else settings,
        node_pool=pool.build() if pool else None,
        nodes=tuple(one.build() for one in nodes),
        pods={one.metadata.name: one for one in built_pods},
        leases={one.metadata.name: one for one in built_leases},
        tasks=tuple(one.build() for one in tasks),
        **more,
    )


def healthy(owner: SliceBuilder | None = None, **changes: Any) -> SliceView:
    """One node with a worker whose agent is alive; `changes` replace parts."""
    parts: dict[str, Any] = {
        "pool": node_pool().validated(), "nodes": [node()], "pods": [worker().ready()], "leases": [lease()],
    }  # fmt: skip
    return view(owner or slice_(), **{**parts, **changes})


def verbs(plan: SlicePlan) -> list[str]:
    """Names of a plan's actions, in order."""
    return [type(action).__name__ for action in plan.actions]


def ready_reason(plan: SlicePlan) -> str:
    """The reason of condition Ready."""
    found = find_condition(plan.status.conditions, "Ready")
    return found.reason if found else ""
