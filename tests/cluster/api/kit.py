"""What the tests of the schemas share: a spec, what is refused in it, and the words that say so."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.errors import InvalidError
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, SLICES, TASKS, Kind

# All in one namespace that is there anyway: making one for each of hundreds of cases takes longer than the cases.
NAMESPACE = "default"
SLICE: dict[str, Any] = {"instanceType": "cd-gp-i64-erapids"}
TASK: dict[str, Any] = {"image": "iris/task:1"}
EXEC = {"exec": {"command": ["true"]}}
_KINDS = {TASKS: "Task", SLICES: "Slice", SCALE_GROUPS: "ScaleGroup", IRIS_CLUSTERS: "IrisCluster"}


@dataclass(frozen=True)
class Refused:
    """A spec that is refused, with words that must be in the answer."""

    kind: Kind
    spec: dict[str, Any]
    words: tuple[str, ...]


def refused_tasks(cases: dict[str, tuple[Any, ...]]) -> dict[str, Refused]:
    """Each case: a spec, then words of the answer."""
    return {name: Refused(TASKS, case[0], case[1:]) for name, case in cases.items()}


def task_with(**spec: Any) -> dict[str, Any]:
    """A Task's spec."""
    return {**TASK, **spec}


@asynccontextmanager
async def made(api: KubeClient, kind: Kind, spec: dict[str, Any]) -> AsyncIterator[str]:
    """An object of a name of its own, gone at the end; the name."""
    name = f"x-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": kind.api_version, "kind": _KINDS[kind], "metadata": {"name": name}, "spec": spec}
    await api.create(kind, body, NAMESPACE)
    yield name
    await api.delete(kind, name, NAMESPACE)


async def assert_refused(api: KubeClient, case: Refused) -> None:
    with pytest.raises(InvalidError) as caught:
        async with made(api, case.kind, case.spec):
            pass
    for word in case.words:
        assert word in caught.value.message
