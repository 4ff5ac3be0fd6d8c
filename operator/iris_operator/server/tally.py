"""What happened, counted from the changes of what the API holds: each event once, by the process that saw it come about.

What is there already when an object is first seen happened in another process's time, and was counted there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from iris_operator.api.base import Resource
from iris_operator.api.names import ANNOTATION_SLICE, LABEL_MANAGED, LABEL_SCALE_GROUP
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import Decision, ScaleGroup
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.ports.kube import Kind
from iris_operator.server.meter import Labels, Meter

BOOT_BUCKETS = (60, 120, 300, 600, 900, 1050, 1200, 1350, 1500, 1800, 2400, 3600, 5400)
"""Seconds; bare metal takes 20 to 30 minutes."""

_NODES_PER_RACK = 18
_STANDING = (SlicePhase.READY, SlicePhase.DEGRADED)


@dataclass
class Boots:
    """Boot times of one label set. `at_most[i]`: how many took BOOT_BUCKETS[i] or less."""

    at_most: list[int] = field(default_factory=lambda: [0] * len(BOOT_BUCKETS))
    count: int = 0
    seconds: int = 0

    def add(self, seconds: int) -> None:
        """Count one boot."""
        self.count += 1
        self.seconds += seconds
        for index, bound in enumerate(BOOT_BUCKETS):
            self.at_most[index] += seconds <= bound


class Tally:
    """A listener of the controller's cache. All label sets begin with namespace and group."""

    def __init__(self, namespaces: tuple[str, ...], clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        self.boots: dict[Labels, Boots] = {}  # namespace, group, instance type
        self.decisions: Counter[Labels] = Counter()  # namespace, group, action, reason
        self.failures: Counter[Labels] = Counter()  # namespace, group, kind
        self.billed = Meter(clock, now)  # namespace, group
        self.idle = Meter(clock, now)  # namespace, group
        self._namespaces = namespaces

    def observe(self, kind: Kind, before: Resource | None, after: Resource | None) -> None:
        """Take note of one change; None: it was not there, or is not any more."""
        found = after or before
        if before is not None and after is not None and before.metadata.uid != after.metadata.uid:
            self.observe(kind, before, None)
            before = None
        if isinstance(found, Slice):
            self._slice(before if isinstance(before, Slice) else None, after if isinstance(after, Slice) else None)
        elif isinstance(before, ScaleGroup) and isinstance(after, ScaleGroup):
            self._decisions(before, after)
        elif isinstance(found, NodePool):
            self._node_pool(found, gone=after is None)

    def _slice(self, before: Slice | None, after: Slice | None) -> None:
        if after is None:
            if before is not None:
                self.idle.drop(before.metadata.uid)
            return
        labels = (after.metadata.namespace, after.spec.scale_group_name)
        status = after.status
        idle = status.idle_since is not None and status.phase in _STANDING
        self.idle.set(after.metadata.uid, labels, after.spec.node_count if idle else 0, status.idle_since)
        if before is None:
            return
        if before.status.failure is None and status.failure is not None:
            self.failures[*labels, status.failure.value] += 1
        if before.status.boot_seconds is None and status.boot_seconds is not None:
            self.boots.setdefault((*labels, after.spec.instance_type), Boots()).add(status.boot_seconds)

    def _decisions(self, before: ScaleGroup, after: ScaleGroup) -> None:
        new = Counter(map(_identity, after.status.decisions)) - Counter(map(_identity, before.status.decisions))
        for (_, action, reason, _), times in new.items():
            self.decisions[after.metadata.namespace, after.metadata.name, action, reason] += times

    def _node_pool(self, pool: NodePool, *, gone: bool) -> None:
        """Whatever becomes of its Slice, a NodePool bills until it is gone."""
        meta = pool.metadata
        namespace = meta.annotations.get(ANNOTATION_SLICE, "").partition("/")[0]
        if meta.labels.get(LABEL_MANAGED) != "true" or namespace not in self._namespaces:
            return
        if gone:
            self.billed.drop(meta.uid)
            return
        labels = (namespace, meta.labels.get(LABEL_SCALE_GROUP, ""))
        self.billed.set(meta.uid, labels, _nodes(pool), meta.creation_timestamp)


def _nodes(pool: NodePool) -> int:
    return pool.spec.target_nodes or pool.spec.target_racks * _NODES_PER_RACK


def _identity(decision: Decision) -> tuple[datetime, str, str, str]:
    return decision.time, decision.action, decision.reason, decision.message
