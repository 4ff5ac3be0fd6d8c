from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes.containerd.maker import STARTED_LABEL
from iris_runtimes.containerd.observe import as_sandbox, without_task
from iris_runtimes.containerd.oci_spec import LOG_PATH_ANNOTATION
from iris_runtimes.containerd.proto import containers_pb2, process_pb2
from iris_runtimes.protocol import Exit, SandboxState

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def record(log: Path | None = None, **labels: str) -> containers_pb2.Container:
    annotations = {} if log is None else {LOG_PATH_ANNOTATION: str(log)}
    made = containers_pb2.Container(id="task-1-1", labels=labels)
    made.spec.CopyFrom(AnyMessage(value=json.dumps({"annotations": annotations}).encode()))
    made.updated_at.FromDatetime(NOON)
    return made


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (process_pb2.CREATED, SandboxState.CREATED),
        (process_pb2.RUNNING, SandboxState.RUNNING),
        (process_pb2.PAUSED, SandboxState.RUNNING),
        (process_pb2.UNKNOWN, SandboxState.RUNNING),  # its shim is slow; nobody knows that it ended
        (process_pb2.STOPPED, SandboxState.EXITED),
    ],
)
def test_states(status: process_pb2.Status, state: SandboxState) -> None:
    assert as_sandbox(record(), process_pb2.Process(status=status)).state is state


def test_how_it_ended() -> None:
    process = process_pb2.Process(status=process_pb2.STOPPED, exit_status=137, pid=7)
    process.exited_at.FromDatetime(NOON)
    found = as_sandbox(record(a="b"), process)
    assert (found.exit, found.labels, found.pid) == (Exit(137, NOON), {"a": "b"}, 7)


def test_never_started() -> None:
    assert without_task(record()).state is SandboxState.CREATED


def test_lost_with_its_last_write(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.touch()
    found = without_task(record(log, **{STARTED_LABEL: "true"}))
    assert found.exit is not None
    assert found.exit.lost
    assert found.exit.exited_at == datetime.fromtimestamp(log.stat().st_mtime, UTC)


@pytest.mark.parametrize("log", [None, Path("/no/such/log")])
def test_lost_without_its_log(log: Path | None) -> None:
    assert without_task(record(log, **{STARTED_LABEL: "true"})).exit == Exit(255, NOON, lost=True)
