"""Any Task that the schema takes, in any state: the agent's decisions never raise, but for what they promise to."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from iris_operator.agent.diff import View, Worker, decide
from iris_operator.agent.memory import Hook, Illness, Memory, Pulling, StartFailure, Trouble
from iris_operator.agent.node.gpus import Grant
from iris_operator.agent.node.ports import HostPorts, PortTaken, allot
from iris_operator.agent.probes.agenda import first_due
from iris_operator.agent.probes.target import target_of
from iris_operator.agent.probes.told import Verdict
from iris_operator.agent.probes.verdict import Answer, Health, Kind, after, asked, at_first, probe_of
from iris_operator.agent.sandbox.spec import Place, sandbox_spec
from iris_operator.agent.sandbox.stages import Stage, parse
from iris_operator.api.task import Task
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.protocol import CgroupParent, Exit, Sandbox
from tests.properties.schema_values import spec_schema, values
from tests.unit.iris_operator.agent.build import NODE, NOW, POD, POD_UID, binding, sandbox

PLACE = Place("s", NODE, POD_UID, CgroupParent("/pod"), host_ip="10.0.0.1")
MOMENTS = st.integers(-7200, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
TEXTS = st.text(max_size=30)


def body(spec: dict[str, Any], status: dict[str, Any], deleting: bool) -> dict[str, Any]:
    metadata = {
        "name": "t", "namespace": "default", "uid": "uid-t", "resourceVersion": "1", "generation": 1,
        "finalizers": ["iris.dev/task"], **({"deletionTimestamp": "2026-11-21T11:59:59Z"} if deleting else {}),
    }  # fmt: skip
    spec = {**spec, "binding": binding(attempt=2, **({"stopReason": spec["_stop"]} if spec.get("_stop") else {}))}
    return {"apiVersion": "iris.dev/v1alpha1", "kind": "Task", "metadata": metadata, "spec": spec, "status": status}


@st.composite
def statuses(draw: st.DrawFn) -> dict[str, Any]:
    """Of this attempt, of the one before, or nothing at all."""
    if draw(st.booleans()):
        return {}
    row = st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Running", "Ready", "Started", "Scheduled"]),
            "status": st.sampled_from(["True", "False"]),
            "reason": st.just("Told"),
            "lastTransitionTime": st.just("2026-11-21T11:00:00Z"),
        }
    )
    phases = ["Pending", "Assigned", "Building", "Running"]
    return {
        "phase": draw(st.sampled_from(phases)),
        "attempt": draw(st.sampled_from([1, 2])),
        "conditions": draw(st.lists(row, max_size=3, unique_by=lambda one: str(one["type"]))),
        **({"startTime": "2026-11-21T12:00:00Z"} if draw(st.booleans()) else {}),
    }


SPECS = values(spec_schema("tasks"))


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A bound Task."""
    spec = draw(SPECS)
    stop = draw(st.sampled_from(["", "", "SliceDrained", "Preempted", "Whatever"]))
    return Task.parse(body({**spec, "_stop": stop}, draw(statuses()), draw(st.booleans())))


STAGES = st.builds(
    parse, st.text(max_size=20) | st.sampled_from(["at 1", "failed 1 3", "missing 127", "command"]), MOMENTS
)
MEMORIES = st.builds(
    Memory,
    attempt=st.sampled_from([1, 2]),
    image_digest=st.sampled_from(["", "sha256:1"]),
    pulling=st.none() | st.builds(Pulling, MOMENTS, st.integers(0, 2**50), st.integers(0, 2**50)),
    failure=st.none() | st.builds(StartFailure, st.just("Why"), TEXTS, MOMENTS, st.none() | st.integers(0, 255)),
    trouble=st.none() | st.builds(Trouble, st.just("Why"), TEXTS, st.integers(1, 99), MOMENTS),
    told_at=st.none() | MOMENTS,
    term_sent=st.none() | MOMENTS,
    kill_sent=st.none() | MOMENTS,
    ill=st.none() | st.builds(Illness, st.just("LivenessProbeFailed"), TEXTS),
    verdict=st.builds(Verdict, st.none() | st.booleans(), st.none() | st.booleans(), TEXTS),
    left=st.booleans(),
    hook=st.none() | st.builds(Hook, MOMENTS, st.booleans(), TEXTS),
    stage=st.none() | STAGES,
)


@st.composite
def sandboxes(draw: st.DrawFn) -> tuple[Sandbox, ...]:
    """None, or the attempt's: made, running, or ended in any way."""
    kind = draw(st.sampled_from(["none", "created", "running", "exited"]))
    if kind == "none":
        return ()
    found = sandbox("exited" if kind == "exited" else kind, code=0 if kind == "exited" else None, attempt=2)
    if kind != "exited":
        return (found,)
    ended = Exit(
        draw(st.integers(0, 255)),
        draw(MOMENTS),
        draw(st.booleans()),
        draw(st.none() | st.integers(0, 2**50)),
        draw(st.booleans()),
    )
    return (Sandbox(found.id, found.labels, found.state, exit=ended),)


@given(tasks(), sandboxes(), MEMORIES, st.booleans(), st.none() | MOMENTS, MOMENTS)
def test_there_is_always_a_decision(
    task: Task, found: tuple[Sandbox, ...], memory: Memory, ready: bool, deadline: datetime | None, now: datetime
) -> None:
    worker = Worker(POD_UID, POD, NODE, ready, deadline, NOW)
    decision = decide(View("uid-t", task, found, memory), worker, now)
    status = getattr(decision.action, "status", None) or getattr(decision.action, "then", None)
    if status is not None:  # the API server would take it
        again = Task.parse({**body({"image": "i"}, status.stated(), False)})
        assert len(again.status.message) <= 1024
        assert all(len(one.message) <= 32768 and one.reason for one in again.status.conditions)
        assert len({one.type for one in again.status.conditions}) == len(again.status.conditions)
    target_of(task, found, memory, POD_UID)


@given(tasks(), st.lists(st.integers(1, 65535), max_size=5), st.lists(st.integers(1, 65535), max_size=5))
def test_a_sandbox_is_made_or_the_user_is_told_why_not(task: Task, taken: list[int], served: list[int]) -> None:
    host = HostPorts(frozenset(("TCP", one) for one in served), frozenset(("TCP", one) for one in served))
    try:
        ports = allot(task, {("TCP", one): "other" for one in taken}, host, NODE)
    except (PortTaken, InvalidSpec) as refused:
        assert str(refused)
        return
    found = [(given.protocol, given.port) for wanted, given in zip(task.spec.ports, ports, strict=True)
             if not wanted.container_port]  # fmt: skip
    assert len(set(found)) == len(found)
    assert not {*found} & {("TCP", one) for one in [*taken, *served]}
    try:
        made = sandbox_spec(task, PLACE, Grant(ports=ports), "sha256:1", Path("/logs/x"), NOW)
    except InvalidSpec as refused:
        assert str(refused)
        return
    assert all(len(name) + len(value) <= 4096 for name, value in made.labels.items())  # containerd's bound


@given(tasks(), st.lists(st.tuples(st.sampled_from(Kind), st.booleans(), TEXTS), max_size=40), st.floats(0, 1))
def test_any_row_of_answers_has_a_meaning(task: Task, answers: list[tuple[Kind, bool, str]], chance: float) -> None:
    health: Health = at_first(task)
    for kind, ok, words in answers:
        health = after(task.spec, health, kind, Answer(ok, words))
        for one in asked(task.spec, health):
            probe = probe_of(task.spec, one)
            assert probe is not None
            due = first_due(100.0, -3.0, probe.initial_delay_seconds, probe.period_seconds, chance)
            assert due >= 100.0
    assert health.ill is None or asked(task.spec, health) == ()


@given(st.text(max_size=200), MOMENTS)
def test_any_stage_is_read(text: str, at: datetime) -> None:
    assert isinstance(parse(text, at), Stage)
