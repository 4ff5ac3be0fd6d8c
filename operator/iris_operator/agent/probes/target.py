"""Which of a node's Tasks are asked now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from iris_operator.agent.memory import Memory
from iris_operator.agent.probes.ask import Address
from iris_operator.agent.probes.prober import Target
from iris_operator.agent.probes.verdict import has_probes, told_illness
from iris_operator.agent.sandbox.labels import belongs, facts
from iris_operator.api.task import Task, TaskPhase
from iris_runtimes.protocol import Sandbox, SandboxState


def target_of(task: Task | None, sandboxes: Iterable[Sandbox], memory: Memory, worker_uid: str) -> Target | None:
    """The attempt to ask, None when there is none: asked is what is told to run, until it is told to stop.

    That it runs is told once its set-up is over; and what was told outlives this agent.
    """
    if task is None or not has_probes(task.spec) or not _goes_on(task, memory):
        return None
    binding = task.spec.binding
    assert binding is not None
    for sandbox in sandboxes:
        ours = belongs(sandbox, task.metadata.uid, binding.attempt, worker_uid)
        if ours and sandbox.state is SandboxState.RUNNING:
            found = facts(sandbox)
            # The sandbox's time is exact, the status' is that of the command, in whole seconds.
            starts = [one for one in (found.started_at, task.status.start_time) if one is not None]
            ports = {port.name: port.port for port in found.ports}
            return Target(task, Address(sandbox.id, found.host_ip, ports), max(starts, default=binding.bound_at))
    return None


def _goes_on(task: Task, memory: Memory) -> bool:
    binding, status = task.spec.binding, task.status
    if binding is None or task.deleting or binding.stop_reason:
        return False
    if status.phase is not TaskPhase.RUNNING or status.attempt != binding.attempt:
        return False
    if told_illness(status) is not None:
        return False
    ours = memory.attempt == binding.attempt
    return not ours or (memory.ill is None and memory.stopping_since is None and not memory.left)
