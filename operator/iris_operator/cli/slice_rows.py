"""Slices as `iris slice` shows them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from iris_operator.api.slice import Availability, Slice
from iris_operator.cli.output import age

COLUMNS = ("NAME", "PHASE", "GROUP", "NODES", "TASKS", "IDLE", "TAKES TASKS", "AGE", "MESSAGE")


def row(one: Slice, now: datetime) -> list[str]:
    """One line of `iris slice list`."""
    status = one.status
    return [
        one.metadata.name,
        phase(one),
        one.spec.scale_group_name,
        status.nodes_ready or f"0/{one.spec.node_count}",
        str(status.tasks),
        age(status.idle_since, now),
        takes_tasks(one, now),
        age(one.metadata.creation_timestamp, now),
        status.message.replace("\n", " "),
    ]


def phase(one: Slice) -> str:
    """Its phase; Pending before the operator has seen it."""
    return one.status.phase.value if one.status.phase else "Deleting" if one.deleting else "Pending"


def takes_tasks(one: Slice, now: datetime) -> str:
    """`yes`, or why not; and until when it is held."""
    words = "yes" if one.spec.availability is Availability.SCHEDULABLE else one.spec.availability.value
    held = one.spec.hold_until
    return f"{words}, held {age(now, held)}" if held is not None and held > now else words


def data(one: Slice) -> dict[str, Any]:
    """For programs; names as in the API."""
    status = one.status.wire()
    facts = ("nodesReady", "tasks", "idleSince", "readySince", "launchedAt", "bootSeconds", "failure", "message")
    return {
        "name": one.metadata.name,
        "namespace": one.metadata.namespace,
        "phase": phase(one),
        "scaleGroupName": one.spec.scale_group_name,
        "instanceType": one.spec.instance_type,
        "availability": one.spec.availability.value,
        "holdUntil": one.spec.wire().get("holdUntil"),
        "deleting": one.deleting,
        **{name: status.get(name) for name in facts},
    }
