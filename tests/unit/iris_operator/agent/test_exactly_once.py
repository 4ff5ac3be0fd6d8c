"""A Task never runs twice at the same time: random walks of operator, agents, kubelets, people and power cuts.

The decisions are the product's own (plan_task, may_leave, decide); this file plays the API server, which refuses writes
on what has changed, and the machines. Whoever decides may look at what is old, and may be killed after any write.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from iris_operator.agent.actions import (
    CancelPull,
    Forget,
    Pull,
    Release,
    Remove,
    Report,
    Signal,
    Start,
)
from iris_operator.agent.diff import View, Worker, decide
from iris_operator.agent.memory import BLANK, Memory
from iris_operator.api.names import FINALIZER_TASK, container_id
from iris_operator.api.task import Binding, Task
from iris_operator.plan.slices.worker_fence import may_leave
from iris_operator.plan.tasks.lifecycle import plan_task
from iris_runtimes.protocol import Exit, Sandbox, SandboxState
from tests.builders import NOW, PodBuilder, task, worker
from tests.unit.iris_operator.agent.build import sandbox

NODES = ("a", "b", "c")
TURNS, TROUBLE = 200, 0.12
# What separates what is known from what is, most often.
_MISHAPS = (
    "delete", "force", "silence", "silence and delete", "silence and force", "stop", "stop", "restart", "cut", "gone", "vanish"
)  # fmt: skip
SOON = NOW + timedelta(hours=1)


@dataclass
class Machine:
    """A node. `stands`: its Node object is in the API. `talks`: it reaches the API."""

    name: str
    stands: bool = True
    powered: bool = True
    talks: bool = True
    pace: float = 0.9
    pod: PodBuilder | None = None
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    seen: Task | None = None  # the agent's
    memory: Memory = BLANK

    @property
    def pod_uid(self) -> str:
        return self.pod.build().metadata.uid if self.pod else ""

    def running(self) -> list[Sandbox]:
        return [one for one in self.sandboxes.values() if self.powered and one.state is SandboxState.RUNNING]

    def lose_power(self) -> None:
        self.powered, self.memory = False, BLANK
        for one in self.running_before_the_cut():
            self.sandboxes[one.id] = replace(one, state=SandboxState.EXITED, exit=Exit(255, NOW, lost=True))

    def running_before_the_cut(self) -> list[Sandbox]:
        return [one for one in self.sandboxes.values() if one.state is SandboxState.RUNNING]


class Walk:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.task = task("t", retryPolicy={"infrastructure": 1000}).meta(uid="uid-t").build()
        self.history = [self.task]
        self.machines = {name: Machine(name) for name in NODES}
        self.uids = 0
        self.started: list[int] = []

    # the API server

    def write(self, based_on: Task, **changes: object) -> bool:
        """Only on what is newest; False: refused."""
        if based_on.metadata.resource_version != self.task.metadata.resource_version:
            return False
        version = str(int(self.task.metadata.resource_version) + 1)
        finalizers = changes.pop("finalizers", self.task.metadata.finalizers)
        meta = self.task.metadata.model_copy(update={"resource_version": version, "finalizers": finalizers})
        self.task = self.task.model_copy(update={"metadata": meta, **changes})
        self.history = [*self.history[-3:], self.task]
        return True

    def bind(self, based_on: Task, binding: Binding | None) -> bool:
        spec = based_on.spec.model_copy(update={"binding": binding})
        return self.write(based_on, spec=spec, finalizers=[FINALIZER_TASK] if binding else [])

    # the operator

    def place(self) -> None:
        found = self.dice.choice(self.history)
        machine = self.machines[self.dice.choice(NODES)]  # ready or not: the slice's status may be old
        if found.spec.binding is None and not found.ended and machine.pod is not None:
            attempt = max(found.status.attempt or 0, found.status.ended_attempt or 0) + 1
            self.bind(found, Binding(
                slice_name=machine.name, node_name=machine.name, worker_pod=f"{machine.name}-worker-0",
                worker_uid=machine.pod_uid, rank=0, attempt=attempt, bound_at=NOW,
            ))  # fmt: skip

    def operate(self) -> None:
        found = self.dice.choice(self.history)
        binding = found.spec.binding
        stands = binding is not None and any(one.pod_uid == binding.worker_uid for one in self.machines.values())
        plan = plan_task(found, stands and self.dice.random() < 0.7, NOW)  # a cache that lacks a Pod that stands
        if plan.status is not None and not (plan.lost and stands):
            self.write(found, status=plan.status)
        if plan.unbind:
            self.bind(found, None)

    def fence(self) -> None:
        for machine in self.machines.values():
            if machine.pod is not None and may_leave(machine.pod.build(), machine.stands):
                machine.pod = None

    def stop(self) -> None:
        binding = self.task.spec.binding
        if binding is not None and not self.task.ended:
            reason = self.dice.choice(["SliceDrained", "SliceDeleted", "SliceFailed"])
            self.bind(self.task, binding.model_copy(update={"stop_reason": reason}))

    def make_pod(self) -> None:
        machine = self.some()
        if machine.pod is None and machine.stands:
            self.uids += 1
            made = worker(machine.name, node_name=machine.name).ready()
            machine.pod = made.meta(uid=f"pod-{self.uids}", finalizers=["iris.dev/worker"])

    # a node

    def kubelet(self) -> None:
        machine = self.some()
        pod = machine.pod.build() if machine.pod else None
        if not (machine.powered and machine.talks and machine.pod and pod and pod.deleting):
            return
        forced = pod.metadata.deletion_grace_period_seconds == 0
        if not pod.ended:  # stops the agent; a forced end in one step: worker_fence says what that leaves open
            machine.pod, machine.memory = machine.pod.status(phase="Failed"), BLANK
        if pod.ended or forced:
            machine.sandboxes.clear()  # all of the cgroup
            machine.pod = machine.pod.meta(deletionGracePeriodSeconds=0)

    def agent(self, machine: Machine) -> None:
        pod = machine.pod.build() if machine.pod else None
        if not machine.powered or pod is None or pod.ended:
            return
        if machine.talks and self.dice.random() < 0.8:
            machine.seen = self.task
        found = machine.seen
        here = found if found and found.spec.binding and found.spec.binding.node_name == machine.name else None
        deadline = NOW if pod.deleting and machine.talks else None
        me = Worker(pod.metadata.uid, pod.metadata.name, machine.name, deadline is None, deadline)
        view = View("uid-t", here, tuple(machine.sandboxes.values()), machine.memory)
        self.act(machine, here, decide(view, me, SOON).action)

    def act(self, machine: Machine, found: Task | None, action: object) -> None:
        if isinstance(action, Remove):
            if action.then is not None:
                self.remember(machine, found, final=action.then)
            machine.sandboxes.pop(action.sandbox_id, None)
        elif isinstance(action, Report) and found is not None and machine.talks:
            if action.verify not in machine.sandboxes and self.write(found, status=action.status):
                machine.seen = self.task
        elif isinstance(action, Pull):
            self.remember(machine, found, image_digest="sha256:1")
        elif isinstance(action, Start):
            binding = action.task.spec.binding
            assert binding is not None
            self.started.append(binding.attempt)
            made = sandbox(attempt=binding.attempt, worker=machine.pod_uid)
            machine.sandboxes[container_id("uid-t", binding.attempt)] = made
        elif isinstance(action, Signal):
            self.remember(machine, found, **{"kill_sent" if action.kill else "term_sent": NOW})
            if action.kill or self.dice.random() < 0.5:
                self.end(machine, 137 if action.kill else 143)
        elif isinstance(action, Forget):
            machine.memory = BLANK
        assert not isinstance(action, (Release, CancelPull))

    def remember(self, machine: Machine, found: Task | None, **changes: object) -> None:
        assert found is not None and found.spec.binding is not None
        attempt = found.spec.binding.attempt
        before = machine.memory if machine.memory.attempt == attempt else Memory(attempt=attempt)
        machine.memory = replace(before, **changes)  # type: ignore[arg-type]

    def end(self, machine: Machine, code: int) -> None:
        for one in machine.running():
            machine.sandboxes[one.id] = replace(one, state=SandboxState.EXITED, exit=Exit(code, NOW))

    # what happens

    def some(self) -> Machine:
        return self.machines[self.dice.choice(NODES)]

    def mishap(self) -> None:
        machine = self.some()
        mishap = self.dice.choice(_MISHAPS)
        machine.talks = machine.talks and not mishap.startswith("silence")
        machine.pace = self.dice.choice([0.05, 0.9])
        match mishap.removeprefix("silence and "):
            case "delete" | "force" as how if machine.pod is not None:
                grace = 0 if how == "force" else machine.pod.build().metadata.deletion_grace_period_seconds
                machine.pod = machine.pod.deleting().meta(deletionGracePeriodSeconds=60 if grace is None else grace)
            case "cut":
                machine.lose_power()
            case "gone":  # given back: whatever ran there has no power any more
                machine.lose_power()
                machine.stands, machine.sandboxes = False, {}
                machine.pod = machine.pod.deleting() if machine.pod else None
            case "restart":
                machine.memory = BLANK
            case "stop":
                self.stop()
            case "vanish" if self.task.status.start_time is not None:  # by someone's hand; untold, it is begun again
                machine.sandboxes.clear()

    def mend(self) -> None:
        machine = self.some()
        if not machine.stands and machine.pod is None:
            self.machines[machine.name] = Machine(machine.name)
        elif machine.stands:
            machine.powered = machine.talks = True

    def turn(self, trouble: float) -> None:
        """Some of all that may happen next, in any order; silence lasts for long, agents are slow."""
        if self.dice.random() < trouble:
            self.mishap()
        steps = [self.place, self.operate, self.fence, self.make_pod, self.kubelet]
        self.dice.shuffle(steps)
        for step in steps:
            if self.dice.random() < 0.7:
                step()
            machine = self.some()
            if self.dice.random() < machine.pace:
                self.agent(machine)
        if self.dice.random() < (0.25 if trouble else 0.7):
            self.mend()

    def check(self) -> None:
        running = [one.id for machine in self.machines.values() for one in machine.running()]
        assert len(running) <= 1, running
        assert len(self.started) == len(set(self.started)), self.started
        assert not running or running[0] == container_id("uid-t", max(self.started))


@pytest.mark.parametrize("part", range(8))
def test_never_twice_and_never_stuck(part: int) -> None:
    for seed in range(part * 25, part * 25 + 25):
        walk = Walk(seed)
        try:
            for _ in range(TURNS):
                walk.turn(TROUBLE)
                walk.check()
            for _ in range(400):  # no more trouble: it runs, or has ended as its command did
                if walk.task.ended or any(machine.running() for machine in walk.machines.values()):
                    break
                walk.turn(trouble=0)
                walk.check()
            else:
                raise AssertionError("stuck")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}; {walk.task}") from error
