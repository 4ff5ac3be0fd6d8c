from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from iris_runtimes.docker.container import create_body, digest_of, parse_time, sandbox_of
from iris_runtimes.docker.driver import stats_of
from iris_runtimes.errors import InvalidLimits
from iris_runtimes.execution import Stats
from iris_runtimes.protocol import CgroupParent, Device, Mount, SandboxState, Tmpfs
from tests.unit.iris_runtimes.containerd.build import spec
from tests.unit.iris_runtimes.docker.fake_engine import CREATE_KEYS, HOST_KEYS

IMAGE = "registry.test/busybox:1"
MIB = 2**20


def host(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = create_body(spec(**changes), IMAGE)["HostConfig"]
    return found


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        (("x",), ("a",), {"Entrypoint": ["x"], "Cmd": ["a"]}),
        (("x",), (), {"Entrypoint": ["x"], "Cmd": []}),
        ((), ("a",), {"Cmd": ["a"]}),
        ((), (), {}),
    ],
)
def test_arguments_follow_kubernetes(command: Any, args: Any, expected: dict[str, Any]) -> None:
    body = create_body(spec(command=command, args=args), IMAGE)
    assert {name: body[name] for name in ("Entrypoint", "Cmd") if name in body} == expected


def test_words_before_the_command() -> None:
    body = create_body(spec(command=["c"], args=["a"], before=["b"]), IMAGE)
    assert (body["Entrypoint"], body["Cmd"]) == (["b", "c"], ["a"])


def test_limits() -> None:
    found = host(
        cpu_request_millicores=250, cpu_limit_millicores=1500, cpu_period_us=50_000, memory_limit_bytes=64 * MIB,
        pids_limit=7, shm_size_bytes=MIB,
    )  # fmt: skip
    assert (found["CpuShares"], found["CpuQuota"], found["CpuPeriod"]) == (256, 75_000, 50_000)
    assert (found["Memory"], found["MemorySwap"], found["PidsLimit"], found["ShmSize"]) == (64 * MIB, 64 * MIB, 7, MIB)


def test_no_limits() -> None:
    assert not {"CpuQuota", "Memory", "CgroupParent", "Ulimits"} & set(host(cgroup=CgroupParent("")))


def test_memory_below_the_engines_least() -> None:
    with pytest.raises(InvalidLimits, match="6 MiB"):
        host(memory_limit_bytes=MIB)


def test_mounts_and_devices() -> None:
    found = host(
        mounts=[Mount("/a", "/b", read_only=True)], tmpfs=[Tmpfs("/t", MIB, 0o700)], gpus=["0", "1"],
        cdi_devices=["v.com/nic=1"], devices=[Device("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0")],
    )  # fmt: skip
    assert found["Mounts"] == [
        {"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True},
        {"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": MIB, "Mode": 0o700}},
    ]
    assert found["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]},
        {"Driver": "cdi", "DeviceIDs": ["v.com/nic=1"]},
    ]
    assert found["Devices"][0]["CgroupPermissions"] == "rw"
    assert found["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]


@pytest.mark.parametrize(
    ("changes", "fenced"), [({}, True), ({"privileged": True}, False), ({"allow_privilege_escalation": True}, False)]
)
def test_privileges(changes: dict[str, Any], fenced: bool) -> None:
    assert (host(**changes).get("SecurityOpt") == ["no-new-privileges"]) is fenced


def test_every_field_is_the_references() -> None:
    body = create_body(
        spec(cpu_limit_millicores=1, memory_limit_bytes=64 * MIB, devices=[Device("/dev/infiniband/x", "/dev/infiniband/x")]),
        IMAGE,
    )  # fmt: skip
    assert set(body) <= CREATE_KEYS
    assert set(body["HostConfig"]) <= HOST_KEYS


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"Status": "created"}, SandboxState.CREATED),
        ({"Status": "running", "Pid": 7}, SandboxState.RUNNING),
        ({"Status": "paused", "Pid": 7}, SandboxState.RUNNING),
        ({"Status": "restarting"}, SandboxState.RUNNING),
        ({"Status": "exited", "ExitCode": 3, "FinishedAt": "2026-01-02T03:04:05.123456789Z"}, SandboxState.EXITED),
        ({"Status": "dead", "ExitCode": 3, "FinishedAt": "2026-01-02T03:04:05Z"}, SandboxState.EXITED),
    ],
)
def test_states(state: dict[str, Any], expected: SandboxState) -> None:
    found = sandbox_of(
        {"Name": "/task-1", "State": state, "Config": {"Labels": {"a": "b", "iris.dev/managed": "true"}}}
    )
    assert (found.id, found.state, dict(found.labels)) == ("task-1", expected, {"a": "b"})
    assert (found.exit is not None) == (expected is SandboxState.EXITED)


def test_oom() -> None:
    state = {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "FinishedAt": "2026-01-02T03:04:05Z"}
    found = sandbox_of({"Name": "/a", "State": state, "Config": {}})
    assert found.exit is not None
    assert (found.exit.oom_killed, found.exit.exited_at) == (True, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "microsecond"), [("2026-01-02T03:04:05Z", 0), ("2026-01-02T03:04:05.5Z", 500_000),
                              ("2026-01-02T03:04:05.123456789Z", 123_456)],
)  # fmt: skip
def test_times(text: str, microsecond: int) -> None:
    assert parse_time(text) == datetime(2026, 1, 2, 3, 4, 5, microsecond, tzinfo=UTC)


@pytest.mark.parametrize(
    ("digests", "expected"),
    [
        (["a/b@sha256:1", "r/i@sha256:2"], "sha256:2"),
        (["a/b@sha256:1"], "sha256:1"),
        ([], "sha256:id"),
        (None, "sha256:id"),
    ],
)
def test_digests(digests: Any, expected: str) -> None:
    assert digest_of({"Id": "sha256:id", "RepoDigests": digests}, "r/i") == expected


@pytest.mark.parametrize("inactive", ["total_inactive_file", "inactive_file"])
def test_stats(inactive: str) -> None:
    found = stats_of(
        {
            "read": "2026-01-02T03:04:05Z",
            "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}, "throttling_data": {"throttled_time": 10**9}},
            "memory_stats": {"usage": 1000, "limit": 5000, "stats": {inactive: 400}},
            "pids_stats": {"current": 4},
        }
    )
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found == Stats(at, 2.5, 1000, 600, 5000, None, 4, 1.0)
