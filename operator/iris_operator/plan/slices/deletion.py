"""A Slice with a deletionTimestamp, and one that failed: their nodes are given back; the first goes then, the second stays."""

from __future__ import annotations

from datetime import datetime

from iris_operator.api.base import Condition
from iris_operator.api.names import FINALIZER_SLICE
from iris_operator.api.slice import SlicePhase
from iris_operator.plan.actions import Note, RemoveFinalizer, SliceAction
from iris_operator.plan.conditions import find_condition, set_condition
from iris_operator.plan.slices.give_back import Step, give_back
from iris_operator.plan.slices.plan import DELETED, READY, SlicePlan
from iris_operator.plan.slices.snapshot import SliceView

STOP_DELETED = "SliceDeleted"
STOP_FAILED = "SliceFailed"


def plan_deletion(view: SliceView, now: datetime) -> SlicePlan:
    """The plan of a Slice with a deletionTimestamp. Nothing launched yet: it goes at once."""
    step = give_back(view, view.slice.metadata.deletion_timestamp or now, STOP_DELETED, now)
    held = FINALIZER_SLICE in view.slice.metadata.finalizers
    actions: tuple[SliceAction, ...] = (RemoveFinalizer(),) if step.gone and held else step.actions
    before = view.slice.status
    first = before.phase is not SlicePhase.DELETING
    generation = view.slice.metadata.generation
    status = before.model_copy(
        update={
            "phase": SlicePhase.DELETING,
            "phase_since": now.replace(microsecond=0) if first else before.phase_since,
            "message": step.message,
            "tasks": len(view.tasks),
            "idle_since": None,
            "observed_generation": generation,
            "conditions": set_condition(
                _with_deleted(view, step, now),
                READY,
                "False",
                step.reason,
                step.message,
                generation=generation,
                now=now,
            ),
        }
    )
    begun = (Note("Normal", "Deleting", step.message),) if first else ()
    return SlicePlan(actions, status, (*begun, *_warnings(view, step)), step.recheck_seconds)


def plan_failed(view: SliceView, now: datetime) -> SlicePlan:
    """Failed is final: its Tasks are moved, its nodes given back, the reason stays."""
    before = view.slice.status
    step = give_back(view, before.phase_since or now, STOP_FAILED, now)
    status = before.model_copy(
        update={
            "nodes": before.nodes if view.pods else [],
            "nodes_ready": f"0/{view.slice.spec.node_count}",
            "node_pool_name": "" if step.gone else before.node_pool_name,
            "tasks": len(view.tasks),
            "idle_since": None,
            "observed_generation": view.slice.metadata.generation,
            "conditions": _with_deleted(view, step, now),
        }
    )
    return SlicePlan(step.actions, status, _warnings(view, step), step.recheck_seconds)


def _with_deleted(view: SliceView, step: Step, now: datetime) -> list[Condition]:
    """The conditions with Deleted once the NodePool's turn has come; its transition time is since when it is asked."""
    conditions = view.slice.status.conditions
    if not step.pool and not step.gone:
        return list(conditions)
    return set_condition(
        conditions,
        DELETED,
        "True" if step.gone else "False",
        step.reason,
        "its NodePool is gone: nothing bills" if step.gone else step.message,
        generation=view.slice.metadata.generation,
        now=now,
    )


def _warnings(view: SliceView, step: Step) -> tuple[Note, ...]:
    """Nodes that can't be given back bill on: one Event when it begins."""
    if step.reason not in ("DeletionRefused", "DeletionHangs"):
        return ()
    before = find_condition(view.slice.status.conditions, DELETED)
    told = before is not None and before.reason == step.reason
    return () if told else (Note("Warning", step.reason, step.message),)
