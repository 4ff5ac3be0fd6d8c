"""A Task of several replicas, its members, their agents and an operator that ends between any two writes, in any order:
no member is in another attempt than the others, and all comes to one end."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iris_operator.api.life import Cause
from iris_operator.api.names import FINALIZER_TASK
from iris_operator.api.task import Task, TaskPhase, TaskStatus
from iris_operator.manifests.member_task import member_task
from iris_operator.plan.placement.placement import PlacementView, plan_placement
from iris_operator.plan.tasks.gang import gang_of
from iris_operator.plan.tasks.lifecycle import plan_task
from iris_operator.plan.tasks.replicas import plan_replicas
from iris_operator.plan.tasks.retry import MOVES, AttemptEnd, attempt_is_over, attempt_over
from iris_operator.plan.tasks.verdict import after_exit
from tests.builders import NAMESPACE, NOW, cluster, slice_, task

_MEMBERS = 3
_NODE = {"cpu": "1", "memory": "1Gi"}
_BUDGET = {"user": 2, "infrastructure": 1, "backoffSeconds": 3}
_CLUSTERS = (cluster().build(),)
_SLICES = (slice_("a").ready(_NODE, _NODE).build(), slice_("b").ready(*[_NODE] * _MEMBERS).build())


@dataclass
class World:
    """Tasks by name as the API has them; `running`: (UID, attempt) of what really runs, by member's name."""

    tasks: dict[str, Task] = field(default_factory=dict)
    running: dict[str, tuple[str, int]] = field(default_factory=dict)
    crews: dict[int, set[str]] = field(default_factory=dict)  # attempt -> UIDs of the members that it began with
    begun: set[tuple[str, int]] = field(default_factory=set)
    others: dict[int, Task] = field(default_factory=dict)  # strangers that take a node's room, by its rank
    seconds: float = 0
    uids: int = 0
    versions: int = 1

    def put(self, found: Task) -> None:
        self.versions += 1
        meta = found.metadata.model_copy(update={"resource_version": str(self.versions)})
        if meta.deletion_timestamp is not None and not meta.finalizers:
            self.tasks.pop(meta.name, None)
            return
        self.tasks[meta.name] = found.model_copy(update={"metadata": meta})

    def create(self, body: dict[str, Any]) -> None:
        if body["metadata"]["name"] in self.tasks:
            return
        self.uids += 1
        now = (NOW + timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {**body["metadata"], "uid": f"uid-{self.uids}", "generation": 1, "creationTimestamp": now}
        self.put(Task.parse({**body, "metadata": meta}))

    def change(self, seen: Task, **parts: Any) -> None:
        """Only of the version that was seen."""
        found = self.tasks.get(seen.metadata.name)
        if found is not None and found.metadata.resource_version == seen.metadata.resource_version:
            self.put(found.model_copy(update=parts))

    def meta(self, seen: Task, **fields: Any) -> Any:
        return seen.metadata.model_copy(update=fields)

    def bind(self, seen: Task, binding: Any) -> None:
        finalizers = [FINALIZER_TASK] if binding is not None else []
        spec = seen.spec.model_copy(update={"binding": binding})
        self.change(seen, spec=spec, metadata=self.meta(seen, finalizers=finalizers))

    def status(self, seen: Task, status: TaskStatus) -> None:
        self.change(seen, status=TaskStatus.model_validate(status.stated()))  # whole seconds, as the API keeps them

    def delete(self, name: str) -> None:
        found = self.tasks.get(name)
        if found is not None and not found.deleting:
            self.put(found.model_copy(update={"metadata": self.meta(found, deletion_timestamp=self.now)}))

    @property
    def now(self) -> Any:
        return NOW + timedelta(seconds=self.seconds)

    @property
    def members(self) -> list[Task]:
        return [self.tasks[name] for name in sorted(self.tasks) if name != "t"]

    def place(self, writes: int) -> None:
        """One pass; the operator ends after so many writes."""
        open_ = tuple(one for one in (*self.tasks.values(), *self.others.values()) if not one.ended)
        plan = plan_placement(PlacementView(NAMESPACE, _CLUSTERS, _SLICES, open_), self.now)
        for one in plan.bindings[:writes]:
            attempt, here = one.binding.attempt, [each for each in self.members if not each.deleting]
            if not any(each.spec.binding and each.spec.binding.attempt == attempt for each in self.members):
                self.crews[attempt] = {each.metadata.uid for each in here}
            crew = self.crews[attempt]
            assert one.task.metadata.uid in crew, "it joins an attempt that it was not in from the beginning"
            assert all((each.status.ended_attempt or 0) < attempt for each in here), "that attempt is over for a member"
            assert one.binding.node_name not in {
                each.spec.binding.node_name for each in self.others.values() if each.spec.binding
            }
            self.bind(one.task, one.binding)

    def stranger(self, rank: int) -> None:
        """A Task of somebody else's takes a node where it is free."""
        taken = {one.spec.binding.rank for one in self.members if one.spec.binding is not None and not one.ended}
        if rank not in taken:
            self.others[rank] = task(f"other-{rank}", resources={"limits": _NODE}).bound("b", rank).build()

    def reconcile(self, writes: int) -> None:
        """The Task with its members, and the members one by one."""
        parent = self.tasks.get("t")
        calls: list[Any] = []
        if parent is not None:
            plan = plan_replicas(gang_of(parent, self.tasks.get), self.now)
            if plan.hold:
                calls.append(lambda: self.change(parent, metadata=self.meta(parent, finalizers=[FINALIZER_TASK])))
            calls += [lambda rank=rank: self.create(member_task(parent, rank)) for rank in plan.create]
            calls += [lambda one=one: self._stop(one.task, one.reason) for one in plan.stop]
            calls += [lambda one=one: self.delete(one.metadata.name) for one in plan.delete]
            calls += [lambda one=one, status=status: self.status(one, status) for one, status in plan.say]
            if plan.status is not None and not plan.hold:
                calls.append(lambda: self.status(parent, plan.status or TaskStatus()))
            if plan.release:
                calls.append(lambda: self.change(parent, metadata=self.meta(parent, finalizers=[])))
        for call in calls[:writes]:
            call()
        for one in self.members[: max(0, writes - len(calls))]:
            plan_of_one = plan_task(one, True, self.now)
            if plan_of_one.unbind:
                self.bind(one, None)
            elif plan_of_one.release:
                self.change(one, metadata=self.meta(one, finalizers=[]))

    def _stop(self, seen: Task, reason: str) -> None:
        assert seen.spec.binding is not None
        binding = seen.spec.binding.model_copy(update={"stop_reason": reason})
        self.change(seen, spec=seen.spec.model_copy(update={"binding": binding}))

    def agent(self, rank: int, what: str) -> None:
        """One step of the agent of a member."""
        name = f"t-{rank}"
        one = self.tasks.get(name)
        if one is None or one.spec.binding is None:
            return
        binding, runs = one.spec.binding, self.running.get(name)
        if one.ended or attempt_is_over(one):
            assert runs is None
        elif runs is None and not one.deleting and not binding.stop_reason:
            self._begins(one, binding.attempt)
            return
        elif runs is not None and what in ("exit 0", "exit 3"):
            self.running.pop(name)
            self._exits(one, int(what[-1]))
        elif runs is not None and what == "lost":
            self.running.pop(name)
            self.status(one, attempt_over(one, AttemptEnd("WorkerLost", "gone", self.now, Cause.INFRASTRUCTURE)))
        elif binding.stop_reason or one.deleting:
            self.running.pop(name, None)
            moves = binding.stop_reason in MOVES and not one.deleting
            end = AttemptEnd(binding.stop_reason, "stopped", self.now, None)
            self.status(
                one, attempt_over(one, end) if moves else self._ended(one, TaskPhase.KILLED, binding.stop_reason)
            )
        one = self.tasks.get(name)
        if one is not None and one.deleting and name not in self.running:
            self.change(one, metadata=self.meta(one, finalizers=[]))

    def _begins(self, one: Task, attempt: int) -> None:
        for name, (uid, other) in self.running.items():
            assert other == attempt, f"{name} ({uid}) is in attempt {other}, {one.metadata.name} begins {attempt}"
        assert (one.metadata.uid, attempt) not in self.begun, "it begins an attempt twice"
        self.begun.add((one.metadata.uid, attempt))
        self.running[one.metadata.name] = (one.metadata.uid, attempt)
        more = {"phase": TaskPhase.RUNNING, "attempt": attempt, "start_time": self.now, "finish_time": None}
        kept = {name: getattr(one.status, name) for name in ("retries", "ended_attempt", "attempts", "conditions")}
        self.status(one, TaskStatus(**kept, **more))

    def _exits(self, one: Task, code: int) -> None:
        phase = after_exit(one, code).phase
        if phase is TaskPhase.PENDING:
            self.status(one, attempt_over(one, AttemptEnd("Error", "exit", self.now, Cause.USER, code)))
        else:
            self.status(one, self._ended(one, phase, "Error" if code else "Completed", exit_code=code))

    def _ended(self, one: Task, phase: TaskPhase, reason: str, **more: Any) -> TaskStatus:
        facts = {"phase": phase, "reason": reason, "message": reason, "finish_time": self.now, **more}
        return one.status.model_copy(update=facts)

    def settle(self, what: str) -> None:
        """Everybody does what is his, until nothing changes."""
        self.others.clear()
        for _ in range(60):
            before = self.versions
            self.seconds += 11  # more than any rest
            self.reconcile(99)
            self.place(99)
            for rank in range(_MEMBERS):
                self.agent(rank, what)
            if before == self.versions:
                return
        raise AssertionError("it does not come to an end")


def _new() -> World:
    world = World()
    body = task("t", replicas=_MEMBERS, retryPolicy=_BUDGET, resources={"limits": _NODE}).body()
    world.create(body)
    return world


_AGENT = st.tuples(
    st.just("agent"), st.integers(0, _MEMBERS - 1), st.sampled_from(["go", "go", "go", "exit 0", "exit 3", "lost"])
)
_OPERATOR = st.tuples(st.sampled_from(["place", "reconcile"]), st.sampled_from([1, 2, 3, 5, 9, 99]), st.just(""))
_PERSON = st.tuples(st.sampled_from(["delete member"]), st.integers(0, _MEMBERS - 1), st.just(""))
_STRANGER = st.tuples(st.sampled_from(["stranger", "stranger goes"]), st.integers(0, _MEMBERS - 1), st.just(""))
_TIME = st.tuples(st.just("time"), st.sampled_from([1, 4, 12]), st.just(""))
_STEPS = st.lists(
    st.one_of(_AGENT, _AGENT, _OPERATOR, _OPERATOR, _OPERATOR, _TIME, _PERSON, _STRANGER), min_size=15, max_size=60
)


def _run(world: World, steps: list[tuple[str, int, str]]) -> None:
    for kind, number, what in steps:
        if kind == "agent":
            world.agent(number, what)
        elif kind == "place":
            world.place(number)
        elif kind == "reconcile":
            world.reconcile(number)
        elif kind == "time":
            world.seconds += number
        elif kind == "stranger":
            world.stranger(number)
        elif kind == "stranger goes":
            world.others.pop(number, None)
        else:
            world.delete(f"t-{number}")
        _check(world)


def _check(world: World) -> None:
    attempts = {attempt for _, attempt in world.running.values()}
    assert len(attempts) <= 1
    bound = [one.spec.binding for one in world.members if one.spec.binding is not None]
    for attempt in attempts:
        live = [one for one in bound if one.attempt == attempt and one.member is not None]
        assert len({tuple(peer.node_name for peer in one.member.peers) for one in live if one.member}) == 1
        assert len({one.slice_name for one in live}) == 1
    parent = world.tasks.get("t")
    if parent is not None and parent.ended:
        assert not world.running or parent.status.reason in ("SchedulingTimeout",)


@settings(max_examples=150, deadline=None)
@given(steps=_STEPS)
def test_all_comes_to_one_end(steps: list[tuple[str, int, str]]) -> None:
    world = _new()
    _run(world, steps)
    world.settle("exit 0")
    parent = world.tasks["t"]
    assert parent.ended
    assert world.running == {}
    assert all(one.ended or one.deleting for one in world.members)
    assert parent.status.retries.user <= _BUDGET["user"] and parent.status.retries.infrastructure <= 1
    phases = {one.status.phase for one in world.members}
    assert (parent.status.phase is TaskPhase.SUCCEEDED) == (phases == {TaskPhase.SUCCEEDED})


@settings(max_examples=80, deadline=None)
@given(steps=_STEPS)
def test_deleting_it_leaves_nothing(steps: list[tuple[str, int, str]]) -> None:
    world = _new()
    _run(world, steps)
    world.delete("t")
    world.settle("go")
    assert world.tasks == {} and world.running == {}


def test_a_budget_is_used_up_by_all_together() -> None:
    world = _new()
    for rank in (0, 1, 2):
        for _ in range(4):
            world.seconds += 11
            world.reconcile(99)
            world.place(99)
            for each in range(_MEMBERS):
                world.agent(each, "go")
        assert len(world.running) == _MEMBERS
        world.agent(rank, "exit 3")
    world.settle("go")
    parent = world.tasks["t"]
    assert (parent.status.phase, parent.status.reason, parent.status.retries.user) == ("Failed", "Error", 2)
    assert [one.attempt for one in parent.status.attempts] == [2, 1]
    assert [str(one.status.phase) for one in world.members] == ["Killed", "Killed", "Failed"]
