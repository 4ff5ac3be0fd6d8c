"""What an object says of itself, in one form for all kinds: where it is, since when, why, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from iris_operator.api.base import Condition, Resource
from iris_operator.api.life import Cause
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice
from iris_operator.api.task import Binding, Task, TaskPhase
from iris_operator.cli import group_rows, slice_report
from iris_operator.cli.members import facts_of
from iris_operator.cli.task_reasons import REASONS
from iris_operator.plan.text import duration


@dataclass(frozen=True)
class Report:
    """One object. `facts`: name and value, for people. `advice`: what a person may do next."""

    kind: str
    namespace: str
    name: str
    phase: str
    reason: str
    message: str
    since: datetime | None
    facts: Sequence[tuple[str, str]] = ()
    conditions: Sequence[Condition] = ()
    advice: Sequence[str] = field(default_factory=tuple)

    @property
    def summary(self) -> str:
        """Reason and message in one line."""
        return ": ".join(part for part in (self.reason, self.message) if part)

    def data(self) -> dict[str, Any]:
        """For programs; names as in the API."""
        since = self.since.strftime("%Y-%m-%dT%H:%M:%SZ") if self.since else None
        return {
            "kind": self.kind, "namespace": self.namespace, "name": self.name, "phase": self.phase,
            "reason": self.reason, "message": self.message, "since": since,
            "facts": dict(self.facts), "advice": list(self.advice),
            "conditions": [one.wire() for one in self.conditions],
        }  # fmt: skip


def report(found: Resource, now: datetime, members: Sequence[Task] = ()) -> Report:
    """The report of any Iris object. `members`: those of a Task of several replicas, to be shown with it."""
    if isinstance(found, Task):
        return _task(found, now, members)
    if isinstance(found, Slice):
        return _slice(found)
    if isinstance(found, ScaleGroup):
        return _group(found)
    return _other(found)


def _task(task: Task, now: datetime, members: Sequence[Task]) -> Report:
    status, binding = task.status, task.spec.binding
    phase = status.phase or TaskPhase.PENDING
    reason, message = status.reason, status.message
    if not reason:
        reason = "Assigned" if binding else "New"
        message = f"placed on slice {binding.slice_name}; waits for its agent" if binding else "waits to be placed"
    if phase is TaskPhase.RUNNING and not message:
        message = f"on node {status.node_name}"
    facts = [("image", task.spec.image)]
    if task.spec.priority:
        facts.append(("priority", str(task.spec.priority)))
    if binding is not None:
        facts += _place(task, binding)
    if task.spec.replicas > 1:
        facts.append(("members", f"{status.members_ready or f'0/{task.spec.replicas}'} ready"))
        facts += facts_of(members)
    elif binding is not None and binding.member is not None:
        facts.append(("member", f"rank {binding.member.rank} of {len(binding.member.peers)}"))
    if status.start_time is not None:
        end = status.finish_time or now
        facts.append(("ran for", duration((end - status.start_time).total_seconds())))
    if status.exit_code is not None:
        facts.append(("exit code", str(status.exit_code)))
    if _rests(task, now):
        facts.append(("next attempt", f"in {duration(_rests(task, now))} at the earliest"))
    if status.ports and not phase.ended:
        facts.append(("ports", ", ".join(f"{one.name} {status.host_ip}:{one.port}" for one in status.ports)))
    facts += _attempts(task)
    since = status.finish_time or status.start_time or (binding.bound_at if binding else None)
    return Report(
        "Task", task.metadata.namespace, task.metadata.name,
        "Deleting" if task.deleting and not phase.ended else phase.value, reason, message,
        since or task.metadata.creation_timestamp, facts, status.conditions, _task_advice(task, phase, now),
    )  # fmt: skip


def _attempts(task: Task) -> list[tuple[str, str]]:
    """The attempts before, newest first, and what they cost."""
    found = []
    for cause in Cause:
        if task.status.retries.of(cause):
            name = "retries" if cause is Cause.INFRASTRUCTURE else f"{cause.value.lower()} retries"
            found.append((name, f"{task.status.retries.of(cause)} of {task.spec.retry_policy.budget(cause)}"))
    for one in task.status.attempts:
        ran = "never started"
        if one.start_time is not None and one.finish_time is not None:
            ran = f"ran for {duration(max(0.0, (one.finish_time - one.start_time).total_seconds()))}"
        cost = "" if one.cause is not None else " (costs no retry)"
        place = f"node {one.node_name} of slice {one.slice_name}"
        found.append((f"attempt {one.attempt}", f"{place}, {ran}: {one.reason}: {one.message}{cost}"))
    return found


_QUIET = frozenset(("Completed", "Error", "TaskDeleted"))


def _task_advice(task: Task, phase: TaskPhase, now: datetime) -> list[str]:
    name, reason = task.metadata.name, task.status.reason
    found = REASONS.get(reason)
    advice = [found.do.replace("NAME", name)] if found is not None and reason not in _QUIET else []
    if phase is TaskPhase.WORKER_LOST and found is None:
        advice.append("Not the command's fault: delete the Task and apply it again.")
    if task.status.start_time is not None:
        advice.append(f"iris logs {name}{'' if phase.ended else ' -f'}")
    elif task.spec.binding is None and phase is TaskPhase.PENDING and not _rests(task, now):
        advice.append("kubectl get slices   (Tasks run only on Ready ones)")
    return advice


def _place(task: Task, binding: Binding) -> Iterator[tuple[str, str]]:
    yield "runs on", f"slice {binding.slice_name}, rank {binding.rank}, node {binding.node_name}"
    yield "attempt", str(binding.attempt)
    if not task.ended and (binding.stop_reason or task.deleting):
        yield "is stopped", _stop_words(task, binding)


def _stop_words(task: Task, binding: Binding) -> str:
    why = binding.stop_reason or "Deleted"
    for_whom = f" for Task {binding.stop_for}" if binding.stop_for else ""
    return f"{why}{for_whom}; it has {task.spec.termination_grace_period_seconds} s to end by itself"


def _rests(task: Task, now: datetime) -> float:
    """Seconds until its next attempt may be placed."""
    until = task.status.retry_after
    return 0.0 if until is None or task.spec.binding is not None else max(0.0, (until - now).total_seconds())


def _slice(found: Slice) -> Report:
    status = found.status
    ready = next((one for one in status.conditions if one.type == "Ready"), None)
    return Report(
        "Slice", found.metadata.namespace, found.metadata.name,
        status.phase.value if status.phase else "Pending",
        ready.reason if ready is not None else "New",
        status.message or (ready.message if ready is not None else "the operator has not seen it yet: is it running?"),
        status.phase_since or found.metadata.creation_timestamp, slice_report.facts(found), status.conditions,
        slice_report.advice(found, ready),
    )  # fmt: skip


def _group(group: ScaleGroup) -> Report:
    conditions = {one.type: one for one in group.status.conditions}
    ready, blocked = conditions.get("Ready"), conditions.get("ScalingBlocked")
    is_blocked = blocked is not None and blocked.status == "True"
    shown = blocked if is_blocked else ready
    unseen = "the operator has not seen it yet: is it running?"
    return Report(
        "ScaleGroup", group.metadata.namespace, group.metadata.name,
        "Blocked" if is_blocked else _readiness(ready), shown.reason if shown else "New",
        group.status.message or (shown.message if shown else unseen),
        shown.last_transition_time if shown else group.metadata.creation_timestamp, group_rows.facts(group),
        group.status.conditions, group_rows.advice(group),
    )  # fmt: skip


def _other(found: Resource) -> Report:
    conditions: Sequence[Condition] = getattr(getattr(found, "status", None), "conditions", ())
    ready = next((one for one in conditions if one.type == "Ready"), conditions[0] if conditions else None)
    return Report(
        found.KIND,
        found.metadata.namespace,
        found.metadata.name,
        _readiness(ready),
        ready.reason if ready else "New",
        ready.message if ready else "the operator has not seen it yet: is it running?",
        ready.last_transition_time if ready else found.metadata.creation_timestamp,
        (),
        conditions,
    )


def _readiness(ready: Condition | None) -> str:
    return "Ready" if ready is not None and ready.status == "True" else "NotReady"
