"""Tasks drawn at random, each with the ends that its spec allows. Pure: a seed gives the same Tasks again.

Faults of the platform (a shim, containerd or an agent killed) may add attempts, never another end: they are retried.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_GRACE_SECONDS = 2
_SMALL = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}}
_BEGIN, _DONE = "echo begin $IRIS_ATTEMPT", "echo done $IRIS_ATTEMPT"


@dataclass(frozen=True)
class Ending:
    """One end that is allowed."""

    phase: str
    reason: str


@dataclass(frozen=True)
class RandomTask:
    """A Task to make. `delete_after_seconds`: it is deleted then, whatever it does."""

    name: str
    spec: dict[str, Any]
    endings: tuple[Ending, ...]
    delete_after_seconds: float | None = None
    runs: bool = True  # whether its command ever starts


@dataclass
class _Draft:
    script: list[str] = field(default_factory=lambda: [_BEGIN])
    spec: dict[str, Any] = field(default_factory=dict)
    endings: tuple[Ending, ...] = (Ending("Succeeded", "Completed"),)
    runs: bool = True


def random_tasks(seed: int, number: int, slices: tuple[str, ...]) -> list[RandomTask]:
    """So many, each for one of the slices."""
    chance = random.Random(seed)
    return [_random_task(chance, f"random-{position}", slices) for position in range(number)]


def _random_task(chance: random.Random, name: str, slices: tuple[str, ...]) -> RandomTask:
    draft = _Draft()
    _ports(chance, draft)
    _setup(chance, draft)
    kinds: dict[Callable[[random.Random, _Draft], None], int] = {
        _succeeds: 8, _fails: 4, _fails_at_first: 4, _eats: 1, _runs_too_long: 2, _is_ill: 2, _has_no_command: 1,
        _has_no_image: 1, _code_is_ruled: 2,
    }  # fmt: skip
    kind = chance.choices([*kinds], weights=[*kinds.values()])[0]
    if draft.runs:
        kind(chance, draft)
    command = draft.spec.pop("command", ["sh", "-c", "\n".join(draft.script)])
    spec = {
        "image": "iris/task:dev",
        "command": command,
        "resources": _SMALL,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "placement": {"sliceName": chance.choice(slices)},
        "env": [{"name": "NOISE", "value": "x" * chance.randrange(200)}],
        **draft.spec,
    }
    after = chance.uniform(0, 6) if chance.random() < 0.15 else None
    return RandomTask(name, spec, draft.endings, after, draft.runs)


def _sleep(chance: random.Random, most: float = 2.5) -> str:
    return f"sleep {chance.uniform(0, most):.2f}"


def _ports(chance: random.Random, draft: _Draft) -> None:
    count = chance.choice([0, 0, 1, 2])
    if count:
        draft.spec["ports"] = [{"name": f"p{number}"} for number in range(count)]
        draft.script.append("echo port $IRIS_PORT_P0")


def _setup(chance: random.Random, draft: _Draft) -> None:
    fate = chance.random()
    if fate < 0.1:
        draft.spec["setup"] = [{"command": ["sh", "-c", "echo in vain; exit 9"]}]
        draft.endings, draft.runs = (Ending("Failed", "SetupFailed"),), False
    elif fate < 0.3:
        draft.spec["setup"] = [{"command": ["sh", "-c", f"echo setup; {_sleep(chance, 1)}"]}]


def _succeeds(chance: random.Random, draft: _Draft) -> None:
    noise = chance.choice(["", "head -c 100000 /dev/zero; echo", "seq 1 2000", "printf 'no newline'; echo"])
    draft.script += [_sleep(chance), noise, _DONE]


def _fails(chance: random.Random, draft: _Draft) -> None:
    _retries(chance, draft, chance.choice([0, 0, 1]))
    draft.script += [_sleep(chance, 1.5), f"exit {chance.choice([1, 2, 42, 200])}"]
    draft.endings = (Ending("Failed", "Error"),)


def _fails_at_first(chance: random.Random, draft: _Draft) -> None:
    last = chance.choice([2, 2, 3])
    _retries(chance, draft, last - 1)
    draft.script += [_sleep(chance, 1), f"[ $IRIS_ATTEMPT -lt {last} ] && exit 3", _DONE]


def _code_is_ruled(chance: random.Random, draft: _Draft) -> None:
    action, ending = chance.choice([("Fail", Ending("Failed", "Error")), ("Succeed", Ending("Succeeded", "Completed"))])
    _retries(chance, draft, 2)
    draft.spec["retryPolicy"]["onExitCodes"] = [{"exitCodes": [77], "action": action}]
    draft.script += [_sleep(chance, 1), "exit 77"]
    draft.endings = (ending,)


def _retries(_chance: random.Random, draft: _Draft, user: int) -> None:
    draft.spec["retryPolicy"] = {"user": user, "backoffSeconds": 0}


def _eats(_chance: random.Random, draft: _Draft) -> None:
    draft.script += ["x=a; while :; do x=$x$x; done"]
    draft.endings = (Ending("Failed", "OOMKilled"),)


def _runs_too_long(chance: random.Random, draft: _Draft) -> None:
    if chance.random() < 0.5:
        draft.script.append("trap '' TERM")
    draft.script += ["while :; do sleep 0.1; done"]
    draft.spec["timeouts"] = {"runningSeconds": chance.choice([1, 2])}
    draft.endings = (Ending("Failed", "RunningTimeout"),)


def _is_ill(chance: random.Random, draft: _Draft) -> None:
    kind = chance.choice(["liveness", "startup"])
    draft.spec[f"{kind}Probe"] = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    draft.script += ["while :; do sleep 0.1; done"]
    # An agent that is killed right after its SIGTERM leaves none who knows why it was sent: an exit by a signal.
    draft.endings = (Ending("Failed", f"{kind.capitalize()}ProbeFailed"), Ending("Failed", "Error"))


def _has_no_command(_chance: random.Random, draft: _Draft) -> None:
    draft.spec["command"] = ["/no/such/command"]
    draft.endings, draft.runs = (Ending("Failed", "CommandNotFound"),), False


def _has_no_image(_chance: random.Random, draft: _Draft) -> None:
    draft.spec["image"] = "iris/no-such-image:1"
    draft.endings, draft.runs = (Ending("Failed", "ImageNotFound"),), False
