"""A Slice's plan, and how a verdict on its phase becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from iris_operator.api.slice import FailureKind, Slice, SlicePhase, SliceStatus
from iris_operator.plan.actions import DeleteSlice, Note, RemoveFinalizer, SliceAction
from iris_operator.plan.conditions import set_condition, status_of
from iris_operator.plan.slices.snapshot import SliceView

READY = "Ready"
NODES_READY = "NodesReady"
NODES_FIT = "NodesFit"  # only while, or after, a node came without what was ordered
AGENTS_READY = "AgentsReady"
DISK_PRESSURE = "DiskPressure"  # only while, or after, a node's disk was full
NODE_POOL_ACCEPTED = "NodePoolAccepted"
DRAINED = "Drained"  # only while spec.availability is Drained
DELETED = "Deleted"  # only while its NodePool is being given back


@dataclass(frozen=True)
class SlicePlan:
    """What to do for one Slice, in order; then its status; and when to look again though nothing changes."""

    actions: tuple[SliceAction | DeleteSlice, ...]
    status: SliceStatus
    notes: tuple[Note, ...] = ()
    recheck_seconds: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The phase and why. `look_at`: when it may change though nothing else does."""

    phase: SlicePhase
    reason: str
    message: str
    look_at: datetime | None = None
    failure: FailureKind | None = None


def finish(
    view: SliceView,
    verdict: Verdict,
    actions: tuple[SliceAction | DeleteSlice, ...],
    status: SliceStatus,
    now: datetime,
) -> SlicePlan:
    """Phase, Ready condition and the Event of a change of phase. A slice that fails does nothing else in this pass."""
    before = view.slice.status
    changed = before.phase is not verdict.phase
    failed = verdict.phase is SlicePhase.FAILED
    generation = view.slice.metadata.generation
    status = status.model_copy(
        update={
            "phase": verdict.phase,
            "phase_since": now.replace(microsecond=0) if changed else before.phase_since,
            "message": verdict.message,
            "observed_generation": generation,
            "failure": verdict.failure,
            "conditions": set_condition(
                status.conditions,
                READY,
                status_of(verdict.phase is SlicePhase.READY),
                verdict.reason,
                verdict.message,
                generation=generation,
                now=now,
            ),
        }
    )
    bad = failed or verdict.phase is SlicePhase.DEGRADED
    words = f"{verdict.failure}: {verdict.message}" if failed and verdict.failure else verdict.message
    notes = (Note("Warning" if bad else "Normal", str(verdict.phase), words),) if changed else ()
    recheck = max(1.0, (verdict.look_at - now).total_seconds()) if verdict.look_at else None
    return SlicePlan(() if failed else actions, status, notes, recheck)


def lets_go(owner: Slice, plan: SlicePlan) -> bool:
    """Whether the plan takes for granted that nothing bills any more."""
    if any(isinstance(action, RemoveFinalizer) for action in plan.actions):
        return True
    return plan.status.phase is SlicePhase.FAILED and bool(
        owner.status.node_pool_name and not plan.status.node_pool_name
    )
