"""Desired x observed -> the next action of each Task. Pure; may be asked again at any time.

One action at a time: after each, the worker looks again. So a crash between any two leaves a state that is decided anew.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from iris_operator.agent import status as say
from iris_operator.agent.actions import (
    CancelPull,
    Decision,
    Forget,
    Hook,
    Look,
    Nothing,
    Pull,
    Release,
    Remove,
    Report,
    Signal,
    Start,
)
from iris_operator.agent.causes import StopCause, asked_to_stop, next_limit, stage_start, stop_signal
from iris_operator.agent.memory import BLANK, Memory
from iris_operator.agent.probes import told
from iris_operator.agent.probes.verdict import told_illness
from iris_operator.agent.sandbox.labels import belongs, facts
from iris_operator.agent.sandbox.stages import has_setup
from iris_operator.api.life import Cause
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Binding, Task, TaskStatus
from iris_operator.plan.tasks.retry import attempt_is_over, of_attempt
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.protocol import Sandbox, SandboxState

# A pull or a retry that is over sooner than this isn't worth a write.
_TELL_AFTER_SECONDS = 1.5
_TELL_EVERY_SECONDS = 5.0
_KILL_AGAIN_SECONDS = 10.0


@dataclass(frozen=True)
class Worker:
    """Who decides: this worker Pod on this node. `drain_deadline`: its Pod is being deleted and ends then.

    `since`: when this process began; what was signalled before, it does not know.
    """

    pod_uid: str
    pod_name: str
    node_name: str
    ready: bool = True
    drain_deadline: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class View:
    """One Task uid as seen: the Task (None: not in the API, or not on this node), its sandboxes, our memory of it."""

    uid: str
    task: Task | None
    sandboxes: tuple[Sandbox, ...] = ()
    memory: Memory = BLANK


_WAIT = Decision(Nothing())


def diff(
    tasks: Iterable[Task], sandboxes: Iterable[Sandbox], memories: Mapping[str, Memory], worker: Worker, now: datetime
) -> dict[str, Decision]:
    """Decisions by Task uid, for every Task and every sandbox that is there."""
    desired = {task.metadata.uid: task for task in tasks}
    observed: dict[str, list[Sandbox]] = {}
    for sandbox in sandboxes:
        observed.setdefault(facts(sandbox).task_uid, []).append(sandbox)
    return {
        uid: decide(View(uid, desired.get(uid), tuple(observed.get(uid, ())), memories.get(uid, BLANK)), worker, now)
        for uid in {**desired, **observed}
    }


def decide(view: View, worker: Worker, now: datetime) -> Decision:
    """The next action of one Task."""
    task = view.task
    binding = task.spec.binding if task is not None else None
    ours = task is not None and binding is not None and binding.worker_uid == worker.pod_uid
    for sandbox in view.sandboxes:
        # Before all else: an old attempt must not overlap the new one.
        if not ours or binding is None or not belongs(sandbox, view.uid, binding.attempt, worker.pod_uid):
            return Decision(Remove(sandbox.id, "it belongs to no Task of this worker"))
    if task is None:
        return Decision(Forget(view.uid))
    if binding is None or not ours:
        return _WAIT
    memory = view.memory if view.memory.attempt == binding.attempt else Memory(attempt=binding.attempt)
    case = _Case(task, binding, memory, worker, now)
    return case.with_sandbox(view.sandboxes[0]) if view.sandboxes else case.without_sandbox()


@dataclass(frozen=True)
class _Case:
    """A Task that is bound to this very worker."""

    task: Task
    binding: Binding
    memory: Memory
    worker: Worker
    now: datetime

    @property
    def status(self) -> TaskStatus:
        return of_attempt(self.task.status, self.binding.attempt)

    @property
    def ended(self) -> bool:
        return self.status.phase is not None and self.status.phase.ended

    @property
    def cause(self) -> StopCause | None:
        """Why others want it to stop; None when it may go on."""
        if self.task.deleting:
            return StopCause(self.binding.stop_reason or "TaskDeleted", "the Task was deleted")
        if self.binding.stop_reason:
            return asked_to_stop(self.binding.stop_reason, self.binding.stop_for)
        if self.worker.drain_deadline is not None:
            return StopCause("WorkerDeleted", f"its worker Pod {self.worker.pod_name} was deleted", moves=True)
        return None

    def why_stop(self, started: datetime | None, at: datetime) -> StopCause | None:
        """Why it must stop, its own doing and its limits included, as of `at`."""
        if self.cause is not None:
            return self.cause
        ill, limit = self.memory.ill or told_illness(self.status), next_limit(self.task, self.memory, started)
        if ill is not None:
            return StopCause(ill.reason, ill.words, cause=Cause.USER)
        return limit.cause if limit is not None and at >= limit.at else None

    def _until_limit(self, decision: Decision, started: datetime | None) -> Decision:
        """The same, looked at again when its next limit is reached."""
        limit = next_limit(self.task, self.memory, started)
        if limit is None:
            return decision
        again = decision.look_again
        return replace(decision, look_again=limit.at if again is None else min(again, limit.at))

    def _started(self, sandbox: Sandbox) -> datetime | None:
        """Since when the command runs; None while its set-up does."""
        if has_setup(self.task):
            return stage_start(self.memory.stage)
        return facts(sandbox).started_at or self.now

    def with_sandbox(self, sandbox: Sandbox) -> Decision:
        if self.ended or attempt_is_over(self.task):
            return Decision(Remove(sandbox.id, "its Task has ended" if self.ended else "its attempt is over"))
        if sandbox.state is SandboxState.EXITED:
            return self._exited(sandbox)
        if sandbox.state is SandboxState.CREATED:
            if self.cause is not None or self.memory.failure is not None:
                return Decision(Remove(sandbox.id, "it never started, and never will"))
            return self._start() if self.memory.image_digest else self._pull()  # another agent's: get its inputs too
        return self._running(sandbox)

    def _running(self, sandbox: Sandbox) -> Decision:
        if has_setup(self.task) and self.memory.stage is None:
            return Decision(Look(self.task))
        started = self._started(sandbox)
        cause = self.why_stop(started, self.now)
        if cause is not None:
            # First of all its Service is to send it nothing more; nobody waits for that, though.
            leaving = None if self.memory.left else told.leave(self.task, self.status, cause, self.now)
            return Decision(Report(leaving, leaves=True)) if leaving else self._stop(sandbox, started)
        return self._until_limit(self._goes_on(sandbox, started), started)

    def _goes_on(self, sandbox: Sandbox, started: datetime | None) -> Decision:
        if started is not None:
            wanted = told.tell(self.task, say.running(self.task, sandbox, started), self.memory.verdict, self.now)
            said = self.status.phase is wanted.phase and told.says_the_same(self.status, wanted)
            return _WAIT if said else Decision(Report(wanted))
        stage = self.memory.stage
        assert stage is not None
        tell_at = stage.at + timedelta(seconds=_TELL_AFTER_SECONDS)
        if self.now < tell_at:
            return Decision(Nothing(), tell_at)
        wanted = say.setting_up(self.task, sandbox, stage)
        return Decision(Report(wanted)) if self.status.message != wanted.message else _WAIT

    def _exited(self, sandbox: Sandbox) -> Decision:
        memory, ended = self.memory, sandbox.exit
        assert ended is not None
        if has_setup(self.task) and (memory.stage is None or not (memory.stage.final or memory.stage.is_command)):
            return Decision(Look(self.task, final=True))
        cause = self.why_stop(self._started(sandbox), ended.exited_at)
        told = memory.stopping_since is not None or say.was_signalled(sandbox, _stop_signal(self.task))
        ours = told or self._unseen(sandbox) or told_illness(self.status) is not None
        if ours and cause is not None and memory.hook is not None and memory.hook.words:
            cause = replace(cause, words=f"{cause.words}; {memory.hook.words}")
        wanted = say.exited(self.task, sandbox, cause if ours else None, memory.stage)
        if say.is_move(wanted):
            # In this order: once it is told, the Task may start elsewhere. A crash in between loses the exit code only.
            return Decision(Remove(sandbox.id, "its Task goes elsewhere", wanted))
        return Decision(Report(wanted))

    def _unseen(self, sandbox: Sandbox) -> bool:
        """Whether an earlier agent may have told it to go: to run it once more is better than to call it failed."""
        ended, cause = sandbox.exit, self.cause
        before_us = ended is not None and self.worker.since is not None and ended.exited_at < self.worker.since
        return before_us and cause is not None and cause.moves

    def without_sandbox(self) -> Decision:
        if self.task.deleting or self.ended or attempt_is_over(self.task):
            return self._let_go() if self.task.deleting else _WAIT  # what is over is the operator's to unbind
        if self.memory.final is not None:  # its sandbox was removed for this, or someone wrote over it
            return Decision(Report(self.memory.final, verify=say.container(self.task)))
        if self.cause is not None:
            return self._stopped(self.cause)
        if self.status.start_time is not None:
            return Decision(Report(say.lost(self.task, self.now), verify=say.container(self.task)))
        return self._not_started()

    def _not_started(self) -> Decision:
        if self.memory.failure is not None:
            return Decision(Report(say.not_startable(self.task, self.memory.failure), verify=say.container(self.task)))
        late = self.why_stop(None, self.now)
        if late is not None:
            return self._stopped(late)
        return self._until_limit(self._pull() if not self.memory.image_digest else self._start(), None)

    def _let_go(self) -> Decision:
        if self.memory.pulling is not None:
            return Decision(CancelPull())
        held = FINALIZER_TASK in self.task.metadata.finalizers
        return Decision(Release(self.task, say.container(self.task))) if held else _WAIT

    def _stopped(self, cause: StopCause) -> Decision:
        """Nothing of it is there, and nothing shall be."""
        if self.memory.pulling is not None:
            return Decision(CancelPull())
        wanted = (say.moved if cause.moves else say.stopped_unseen)(self.task, cause, self.now)
        return Decision(Report(wanted, verify=say.container(self.task)))

    def _pull(self) -> Decision:
        pulling = self.memory.pulling
        if pulling is None:
            return self._when_ready(Pull(self.task))
        tell_at = pulling.since + timedelta(seconds=_TELL_AFTER_SECONDS)
        if self.memory.told_at is not None:
            tell_at = max(tell_at, self.memory.told_at + timedelta(seconds=_TELL_EVERY_SECONDS))
        if self.now < tell_at:
            return Decision(Nothing(), tell_at)
        wanted = say.pulling(self.task, pulling, self.now)
        again = self.now + timedelta(seconds=_TELL_EVERY_SECONDS)
        return Decision(Nothing() if self.status.message == wanted.message else Report(wanted), again)

    def _start(self) -> Decision:
        return self._when_ready(Start(self.task))

    def _when_ready(self, action: Pull | Start) -> Decision:
        """The action, unless this worker can't now or the last try's pause isn't over; then say why, now and then."""
        trouble = self.memory.trouble
        if trouble is not None and self.now < trouble.retry_at:
            told = self.memory.told_at
            due = told is None or self.now >= told + timedelta(seconds=_TELL_EVERY_SECONDS)
            if trouble.failures > 1 and due:
                wanted = say.in_trouble(self.task, trouble, self.now)
                if self.status.message != wanted.message:
                    return Decision(Report(wanted), trouble.retry_at)
            return Decision(Nothing(), trouble.retry_at)
        return Decision(action) if self.worker.ready else _WAIT

    def _stop(self, sandbox: Sandbox, started: datetime | None) -> Decision:
        """preStop, the stop signal when that is over, SIGKILL at the end of the grace period that both share."""
        memory, ask = self.memory, Decision(Signal(sandbox.id, _stop_signal(self.task)))
        since = memory.stopping_since
        if since is None:
            if self.task.spec.lifecycle.pre_stop is None or started is None:
                return ask
            seconds = (self._kill_at(self.now) - self.now).total_seconds()
            return Decision(Hook(self.task, sandbox.id, max(seconds, 0.0)))
        kill_at = self._kill_at(since)
        if self.now < kill_at:
            waits = memory.term_sent is not None or (memory.hook is not None and not memory.hook.over)
            return Decision(Nothing(), kill_at) if waits else ask
        if memory.kill_sent is None:
            return Decision(Signal(sandbox.id, kill=True))
        again = memory.kill_sent + timedelta(seconds=_KILL_AGAIN_SECONDS)
        return Decision(Signal(sandbox.id, kill=True)) if self.now >= again else Decision(Nothing(), again)

    def _kill_at(self, since: datetime) -> datetime:
        # Not metadata.deletionGracePeriodSeconds: the API server sets it to 0 on every custom resource.
        kill_at = since + timedelta(seconds=self.task.spec.termination_grace_period_seconds)
        deadline = self.worker.drain_deadline
        return kill_at if deadline is None else min(kill_at, deadline)


def _stop_signal(task: Task) -> int:
    try:
        return stop_signal(task)
    except InvalidSpec:  # told when it was to start
        return signal.SIGTERM
