"""When a Task's ports are an endpoint of its Service, and whether that is ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.plan.tasks.endpoint import endpoint_conditions
from tests.builders import TaskBuilder, task

_PROBE = {"tcpSocket": {"port": "web"}}
_PORTS = [{"name": "web", "port": 20001}]
_READY, _SERVING, _LEAVING = (True, True, False), (False, True, True), (False, False, True)
_NOT = (False, False, False)


def _running(*conditions: tuple[str, str], **spec: Any) -> TaskBuilder:
    built = task(serviceName="web", ports=[{"name": "web"}], **spec).bound()
    built = built.status(phase="Running", attempt=1, hostIP="10.0.0.1", ports=_PORTS)
    for kind, status in conditions:
        built = built.condition(kind, status)
    return built


@dataclass(frozen=True)
class Case:
    """A Task; ready, serving and terminating, or None: no endpoint."""

    task: TaskBuilder
    endpoint: tuple[bool, bool, bool] | None = field(default=None)


CASES = {
    "runs, without a probe": Case(_running(), _READY),
    "of no Service": Case(_running().spec(serviceName="")),
    "not placed": Case(_running().spec(binding=None)),
    "being built": Case(_running().phase("Building")),
    "ended": Case(_running().phase("Succeeded")),
    "another attempt is bound": Case(_running().bound(attempt=2)),
    "without an address": Case(_running().status(hostIP="")),
    "without ports": Case(_running().status(ports=[])),
    "its readiness is not known": Case(_running(readinessProbe=_PROBE), _NOT),
    "it is ready": Case(_running(("Ready", "True"), readinessProbe=_PROBE), _READY),
    "it is not ready": Case(_running(("Ready", "False"), readinessProbe=_PROBE), _NOT),
    "it starts up": Case(_running(("Started", "False"), startupProbe=_PROBE), _NOT),
    "it has started up": Case(_running(("Started", "True"), startupProbe=_PROBE), _READY),
    "started up, and not ready": Case(
        _running(("Started", "True"), ("Ready", "False"), startupProbe=_PROBE, readinessProbe=_PROBE), _NOT
    ),
    "liveness is no readiness": Case(_running(livenessProbe=_PROBE), _READY),
    "it leaves": Case(_running().deleting(), _SERVING),
    "it is told to stop": Case(_running().bound(stopReason="SliceDrained"), _SERVING),
    "it leaves, not ready": Case(_running(("Ready", "False"), readinessProbe=_PROBE).deleting(), _LEAVING),
}


@pytest.mark.parametrize("name", CASES)
def test_endpoint(name: str) -> None:
    case = CASES[name]
    found = endpoint_conditions(case.task.build())
    told = None if found is None else (found.ready, found.serving, found.terminating)
    assert told == case.endpoint
