"""Tasks drawn at random on two nodes, with agents, shims and containerd killed under them: every one is accounted for.

`make soak` runs hundreds (TASKS=500 SEED=7).
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iris_devcluster.nodes import Cluster
from iris_operator.api.names import CACHE_DIR
from tests.e2e.product.random_tasks import RandomTask, random_tasks
from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

log = logging.getLogger(__name__)

SEED = int(os.environ.get("IRIS_SOAK_SEED", "5"))
NUMBER = int(os.environ.get("IRIS_SOAK_TASKS", "40"))
SLICES = ("left-over", "right-over")
_WAVE = 20
_WAVE_SECONDS = 2.0
_FAULT_SECONDS = 5.0
_AGENT_KILLS = 2  # of each node: the kubelet waits longer each time before it starts one again
_ENDED = ("Succeeded", "Failed", "Killed", "Preempted", "WorkerLost")
_LABEL = "soak=random"


@pytest.fixture
def slices(world: World) -> Iterator[tuple[str, ...]]:
    """Two Ready slices of one node each, for these Tasks alone."""
    for name in SLICES:
        world.apply("Slice", name, {"instanceType": "cd-gp-i64-erapids"})
    for name in SLICES:
        world.kubectl("wait", "--for=condition=Ready", f"slice/{name}", "--timeout=120s")
    yield SLICES
    world.kubectl("delete", "tasks", "-l", _LABEL, "--ignore-not-found", "--timeout=120s")
    world.kubectl("delete", "slice", *SLICES, "--timeout=120s")


class Faults:
    """Kills something every few seconds, as drawn."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._world, self._chance = world, chance
        self._kinds = [f"agent {one}" for one in SLICES] * _AGENT_KILLS
        self._next = time.monotonic() + _FAULT_SECONDS

    def step(self) -> None:
        """Kill what is due."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _FAULT_SECONDS
        name = self._chance.choice(SLICES)
        kind = self._chance.choice([*self._kinds[:1], "shim", "shim", "containerd"])
        if kind.startswith("agent"):
            self._kinds.remove(kind)
            self._world.kill_in_pod(f"{kind.split()[1]}-worker-0", "iris-agent")
            kind = "agent"
        elif kind == "shim":
            shims = _shims(self._world, self._world.node_of(name))
            if not shims:
                return
            os.kill(self._chance.choice(shims), signal.SIGKILL)
        else:
            os.kill(self._world.node_processes(self._world.node_of(name))["containerd"], signal.SIGKILL)
        self.done[kind] += 1


class Watched:
    """What was seen of the Tasks: an end that is told once is told for ever."""

    def __init__(self, world: World, tasks: list[RandomTask]) -> None:
        self.tasks = {one.name: one for one in tasks}
        self.made: dict[str, float] = {}
        self.deleted: set[str] = set()
        self.seen: dict[str, dict[str, Any]] = {}
        self.uids: dict[str, str] = {}
        self._world = world
        self._ends: dict[str, tuple[Any, ...]] = {}

    def make(self, tasks: list[RandomTask]) -> None:
        items = [
            {
                "apiVersion": "iris.dev/v1alpha1",
                "kind": "Task",
                "metadata": {"name": one.name, "labels": dict([_LABEL.split("=")])},
                "spec": one.spec,
            }
            for one in tasks
        ]
        self._world.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        self.made.update((one.name, time.monotonic()) for one in tasks)

    def look(self) -> bool:
        """Take in what there is, delete what is due; whether all has come to its end."""
        listed = json.loads(self._world.kubectl("get", "tasks", "-l", _LABEL, "-o", "json"))["items"]
        self.seen = {one["metadata"]["name"]: one for one in listed}
        self.uids.update((name, one["metadata"]["uid"]) for name, one in self.seen.items())
        for name, task in self.seen.items():
            status = task.get("status", {})
            end = tuple(status.get(field) for field in ("phase", "reason", "attempt", "finishTime", "exitCode"))
            known = self._ends.get(name)
            assert known is None or known == end, f"{name} ended twice: {known}, then {end}"
            if status.get("phase") in _ENDED and "deletionTimestamp" not in task["metadata"]:
                self._ends[name] = end
        self._delete_due()
        left = [name for name, task in self.seen.items() if name in self.deleted or not _has_ended(task)]
        return len(self.made) == len(self.tasks) and not left

    def _delete_due(self) -> None:
        now = time.monotonic()
        due = [
            name
            for name, since in self.made.items()
            if (after := self.tasks[name].delete_after_seconds) is not None
            and name not in self.deleted
            and now >= since + after
        ]
        if due:
            self._world.kubectl("delete", "tasks", *due, "--wait=false")
            self.deleted.update(due)
            for name in due:
                self._ends.pop(name, None)


def test_every_task_is_accounted_for(world: World, slices: tuple[str, ...]) -> None:
    log.info("seed %s, %s Tasks (make soak TASKS=%s SEED=%s)", SEED, NUMBER, NUMBER, SEED)
    tasks = random_tasks(SEED, NUMBER, slices)
    watched, faults = Watched(world, tasks), Faults(world, random.Random(SEED))
    waiting, next_wave = list(tasks), 0.0
    deadline = time.monotonic() + 120 + NUMBER
    while True:
        if waiting and time.monotonic() >= next_wave:
            watched.make(waiting[:_WAVE])
            waiting, next_wave = waiting[_WAVE:], time.monotonic() + _WAVE_SECONDS
        if watched.look() and not waiting:
            break
        faults.step()
        assert time.monotonic() < deadline, _unended(watched)
        time.sleep(0.3)

    ends = {name: (one["status"]["phase"], one["status"]["reason"]) for name, one in watched.seen.items()}
    attempts = Counter(one["status"]["attempt"] for one in watched.seen.values())
    log.info("ends %s; %s deleted; by attempts %s", dict(Counter(ends.values())), len(watched.deleted), dict(attempts))
    log.info("killed %s", dict(faults.done))
    assert set(ends) == set(watched.tasks) - watched.deleted
    wrong = {
        name: (end, watched.seen[name]["status"].get("message"))
        for name, end in ends.items()
        if end not in [(one.phase, one.reason) for one in watched.tasks[name].endings]
    }
    assert not wrong, wrong
    _check_logs(world, watched)
    _check_ports(watched)

    world.kubectl("delete", "tasks", "-l", _LABEL, "--ignore-not-found", "--timeout=120s")
    nodes = [world.node_of(name) for name in SLICES]
    world.until(lambda: not _left(world, nodes, watched), "nothing to be left", 60)


def _has_ended(task: dict[str, Any]) -> bool:
    return task.get("status", {}).get("phase") in _ENDED


def _unended(watched: Watched) -> dict[str, Any]:
    """What hangs."""
    return {
        name: (one["spec"].get("binding"), one.get("status"), one["metadata"].get("deletionTimestamp"))
        for name, one in watched.seen.items()
        if not _has_ended(one) or name in watched.deleted
    }


def _check_logs(world: World, watched: Watched) -> None:
    """No attempt has begun twice; the last one of a Task that ran has begun, and is done when it says so."""
    names = {uid: name for name, uid in watched.uids.items()}
    said: dict[str, dict[int, list[str]]] = {}
    script = "for f in */*/output.log; do echo == $f; grep -a -o -E '^(begin|done) [0-9]+$' $f; done; true"
    for slice_name in SLICES:
        text = _on(world, world.node_of(slice_name), "sh", "-c", f"cd {CACHE_DIR}/logs && {{ {script}; }}")
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith("== ") and "*" not in line:
                uid, attempt = line[3:].split("/")[:2]
                lines = said.setdefault(names.get(uid, uid), {}).setdefault(int(attempt), [])
            else:
                lines.append(line)
    for name, logs in said.items():
        for number, found in logs.items():
            assert found in ([], [f"begin {number}"], [f"begin {number}", f"done {number}"]), (name, logs)
    for name, task in watched.seen.items():
        drawn, status = watched.tasks[name], task["status"]
        if drawn.runs:
            last = said.get(name, {}).get(int(status["attempt"]), [])
            whole = 2 if "done" in " ".join(drawn.spec["command"]) else 1
            assert len(last) == (whole if status["phase"] == "Succeeded" else 1), (name, status, said.get(name))


def _check_ports(watched: Watched) -> None:
    """Of those that ran at the same time on a node no two had a port in common."""
    # Without a startTime it never came further than its set-up.
    ran = [status for one in watched.seen.values() if (status := one["status"]).get("ports") and "startTime" in status]
    for number, one in enumerate(ran):
        for other in ran[number + 1 :]:
            overlap = (
                one["nodeName"] == other["nodeName"]
                and one["startTime"] < other["finishTime"]
                and other["startTime"] < one["finishTime"]
            )
            common = {port["port"] for port in one["ports"]} & {port["port"] for port in other["ports"]}
            assert not (overlap and common), (one, other)


def _left(world: World, nodes: list[str], watched: Watched) -> list[str]:
    """What is still there of any of the Tasks: containers, processes, cgroups, mounts, folders."""
    uids = set(watched.uids.values())

    def ours(lines: list[str]) -> list[str]:
        return [line for line in lines if any(uid in line for uid in uids)]

    found = []
    for node in nodes:
        found += ours(world.containers(node))
        found += ours(_on(world, node, "cat", "/proc/self/mountinfo").splitlines())
        found += ours(_on(world, node, "find", CACHE_DIR, "-maxdepth", "2").splitlines())
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            found += ours(path.read_text().splitlines())
        except OSError:
            continue
    found += ours([str(path) for path in _cgroups(Path("/sys/fs/cgroup"))])
    return found


def _cgroups(root: Path) -> Iterator[Path]:
    for folder, names, _files in os.walk(root):
        for name in names:
            yield Path(folder, name)


def _on(world: World, node: str, *command: str) -> str:
    done = Cluster.open(world.root).node_exec(node, list(command))
    assert done.returncode == 0, done
    return done.stdout.decode(errors="replace") if isinstance(done.stdout, bytes) else str(done.stdout)


def _shims(world: World, node: str) -> list[int]:
    """Shims of Iris' sandboxes on a node; the kubelet's Pods have their own."""
    namespace = Path(f"/proc/{world.node_processes(node)['containerd']}/ns/mnt").readlink()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"containerd-shim" in words[0] and b"iris" in words and (entry / "ns/mnt").readlink() == namespace:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
