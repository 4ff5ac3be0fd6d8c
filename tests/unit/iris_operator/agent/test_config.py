"""What the worker Pod tells its agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_operator.agent.config import ConfigError, from_environment
from iris_operator.agent.metrics import Metrics

ENV = {
    "NODE_NAME": "n", "POD_NAME": "s-worker-0", "POD_NAMESPACE": "ns", "POD_UID": "u", "IRIS_SLICE": "s",
    "IRIS_RANK": "3",
}  # fmt: skip


def test_defaults() -> None:
    found = from_environment(ENV)
    assert (found.rank, found.port, found.containerd_socket) == (3, 10001, "/run/containerd/containerd.sock")
    assert found.log_path("uid", 2) == Path("/var/cache/iris/logs/uid/2/output.log")


def test_all_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="NODE_NAME, POD_UID"):
        from_environment({name: value for name, value in ENV.items() if name not in ("NODE_NAME", "POD_UID")})


def test_numbers_are_numbers() -> None:
    with pytest.raises(ConfigError, match="IRIS_PORT is 'x'"):
        from_environment({**ENV, "IRIS_PORT": "x"})


def test_metrics_text() -> None:
    metrics = Metrics()
    metrics.wrote("patch", "tasks/status")
    metrics.tasks_ended["Succeeded"] += 2
    text = metrics.text({"tasks": 3})
    assert 'iris_agent_api_writes_total{verb="patch",resource="tasks/status"} 1\n' in text
    assert 'iris_agent_tasks_ended_total{phase="Succeeded"} 2\n' in text
    assert text.endswith("iris_agent_tasks 3\n")
