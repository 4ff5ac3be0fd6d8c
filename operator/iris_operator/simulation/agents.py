"""Simulated agents: they run the Tasks bound to their Pod, as long as those take, and say what became of them.

What really runs is kept apart from what the API says of it: an unreachable node goes on running its Tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iris_operator.api.base import Resource
from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task, TaskPhase
from iris_operator.ports.errors import NotFoundError
from iris_operator.simulation.agenda import Agenda
from iris_operator.simulation.behaviour import Behaviour
from iris_operator.simulation.machines import Machine, Machines
from iris_operator.simulation.store import Store
from iris_operator.simulation.task_words import ended, moved, running

# Stopping a command that obeys SIGTERM.
_STOP_SECONDS = 2.0


@dataclass
class Run:
    """One attempt of a Task, as it really is on a machine. Times in seconds since the start; None: not yet."""

    uid: str
    key: str
    attempt: int
    node: str
    pod_uid: str
    started: float
    finished: float | None = None
    cause: str = ""
    told: bool = False


@dataclass
class Agents:
    """Every agent. `runs` has every attempt that was ever started; `life_of` says how long a Task takes, in seconds."""

    store: Store
    agenda: Agenda
    machines: Machines
    behaviour: Behaviour
    life_of: Callable[[Task], float]
    runs: list[Run] = field(default_factory=list)
    on_start: list[Callable[[Run], None]] = field(default_factory=list)
    on_finish: list[Callable[[Run], None]] = field(default_factory=list)
    _tasks: dict[str, dict[str, Task]] = field(default_factory=dict)  # Pod uid -> Task uid -> Task
    _live: dict[str, dict[str, Run]] = field(default_factory=dict)  # Pod uid -> Task uid -> Run, until it is told

    _pods_on: dict[str, dict[str, None]] = field(default_factory=dict)  # node -> UIDs of Pods that started there

    def __post_init__(self) -> None:
        self.store.watch(self._told)
        self.machines.listeners.append(self._changed)

    def started(self, pod: Pod) -> None:
        """The Pod's agent is up."""
        self._live.setdefault(pod.metadata.uid, {})
        self._pods_on.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = None
        for task in list(self._tasks.get(pod.metadata.uid, {}).values()):
            self._look(task)

    def drain(self, pod: Pod) -> float:
        """The Pod is being ended: stop what runs there. Answers how many seconds that takes."""
        runs = [run for run in self._live.get(pod.metadata.uid, {}).values() if run.finished is None]
        for run in runs:
            self._stop(run, "WorkerDeleted")
        return _STOP_SECONDS if runs else 0.0

    def busy(self, task_uid: str) -> list[Run]:
        """What of a Task really runs now."""
        return [
            run for of in self._live.values() for run in of.values() if run.uid == task_uid and run.finished is None
        ]

    def _told(self, before: Resource | None, after: Resource | None) -> None:
        found = after or before
        if isinstance(found, Task):
            self._follow(before if isinstance(before, Task) else None, after if isinstance(after, Task) else None)
        elif isinstance(found, Pod) and after is None:
            self._pod_gone(found)

    def _follow(self, before: Task | None, after: Task | None) -> None:
        if before is not None and before.spec.binding is not None:
            self._tasks.get(before.spec.binding.worker_uid, {}).pop(before.metadata.uid, None)
        if after is not None and after.spec.binding is not None:
            self._tasks.setdefault(after.spec.binding.worker_uid, {})[after.metadata.uid] = after
            if before is None or before.spec.binding != after.spec.binding or before.deleting != after.deleting:
                self.agenda.after(self.behaviour.task_start_seconds, lambda: self._look(after))

    def _look(self, seen: Task) -> None:
        """Bring what runs nearer to what is wanted of one Task."""
        task = self.store.get(Task, seen.key)
        if task is None or task.metadata.uid != seen.metadata.uid or task.spec.binding is None:
            return
        binding = task.spec.binding
        live = self._live.get(binding.worker_uid)
        machine = self.machines.by_name.get(binding.node_name)
        if live is None or machine is None or not machine.alive:
            return
        run = live.get(task.metadata.uid)
        if run is not None and run.attempt == binding.attempt:
            if run.finished is None and (task.deleting or binding.stop_reason):
                self._stop(run, "TaskDeleted" if task.deleting else binding.stop_reason)
            return
        over = task.ended or (binding.attempt <= (task.status.ended_attempt or 0))
        if task.deleting and FINALIZER_TASK in task.metadata.finalizers:
            self._release(task)
        elif not over and (binding.stop_reason):
            self._write(task, moved(task, binding.stop_reason, None, self.agenda.now))
        elif not over:
            self._run(task)

    def _run(self, task: Task) -> None:
        binding = task.spec.binding
        assert binding is not None
        uid = task.metadata.uid
        run = Run(uid, task.key, binding.attempt, binding.node_name, binding.worker_uid, self.agenda.seconds)
        self._live[binding.worker_uid][uid] = run
        self.runs.append(run)
        for told in self.on_start:
            told(run)
        self._write(task, running(task, self.agenda.now))
        self.agenda.after(self.life_of(task), lambda: self._finish(run, ""))

    def _stop(self, run: Run, cause: str) -> None:
        run.cause = run.cause or cause
        self.agenda.after(_STOP_SECONDS, lambda: self._finish(run, cause))

    def _finish(self, run: Run, cause: str) -> None:
        """Its command ended: by itself, or as it was stopped."""
        if run.finished is not None:
            return
        self._over(run, cause)
        self._report(run)

    def _over(self, run: Run, cause: str) -> None:
        run.finished = self.agenda.seconds
        run.cause = cause
        for told in self.on_finish:
            told(run)

    def _report(self, run: Run) -> None:
        machine = self.machines.by_name[run.node]
        if run.told or not machine.alive or run.pod_uid not in self._live:
            return  # told when the node is back, or never: then the operator speaks
        run.told = True
        self._live[run.pod_uid].pop(run.uid, None)
        task = self.store.get(Task, run.key)
        if task is None or task.metadata.uid != run.uid or task.spec.binding is None:
            return
        if task.spec.binding.attempt != run.attempt or task.ended:
            return
        now = self.agenda.now
        if not run.cause:
            self._write(task, ended(task, TaskPhase.SUCCEEDED, "Completed", now))
        elif run.cause == "TaskDeleted":
            self._write(task, ended(task, TaskPhase.KILLED, "TaskDeleted", now))
        else:
            self._write(task, moved(task, run.cause, run.started, now))
        current = self.store.get(Task, run.key)
        if current is not None and current.deleting:
            self._release(current)

    def _release(self, task: Task) -> None:
        left = [one for one in task.metadata.finalizers if one != FINALIZER_TASK]
        self.store.update(task, metadata={"finalizers": left}, anyhow=True)

    def _write(self, task: Task, status: object) -> None:
        try:
            self.store.update(task, status=status, anyhow=True)  # type: ignore[arg-type]
        except NotFoundError:
            return

    def _changed(self, machine: Machine) -> None:
        for pod_uid in tuple(self._pods_on.get(machine.name, ())):
            for run in list(self._live.get(pod_uid, {}).values()):
                self._settle(pod_uid, run, machine)
            if machine.alive:
                for task in list(self._tasks.get(pod_uid, {}).values()):
                    self._look(task)
        if machine.released is not None:
            self._pods_on.pop(machine.name, None)

    def _settle(self, pod_uid: str, run: Run, machine: Machine) -> None:
        """A run on a machine that died, vanished from sight or came back."""
        if not machine.powered:
            if run.finished is None:
                self._over(run, "PowerLost")
        elif machine.alive and run.finished is not None:
            self._report(run)
        elif machine.alive and not self._wanted(pod_uid, run):
            self._over(run, "NotWanted")  # the kubelet ends a Pod that is gone, the agent what is not bound to it
            self._live[pod_uid].pop(run.uid, None)

    def _wanted(self, pod_uid: str, run: Run) -> bool:
        task = self._tasks.get(pod_uid, {}).get(run.uid)
        return task is not None and task.spec.binding is not None and task.spec.binding.attempt == run.attempt

    def _pod_gone(self, pod: Pod) -> None:
        """The Pod object is gone. Its processes are, only if a kubelet could end them, or the machine is off."""
        machine = self.machines.by_name.get(pod.spec.node_name)
        self._tasks.pop(pod.metadata.uid, None)
        if machine is not None and machine.powered and not machine.reachable:
            return  # still running, unseen
        for run in list(self._live.pop(pod.metadata.uid, {}).values()):
            if run.finished is None:
                self._over(run, "PodGone")
