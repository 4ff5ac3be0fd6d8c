from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iris_devcluster import command, host, packages, processes
from iris_devcluster.errors import CommandFailedError, DevclusterError
from iris_devcluster.progress import Progress


def test_a_loopback_resolver_is_no_use_to_a_node(tmp_path: Path) -> None:
    stub, real = tmp_path / "stub", tmp_path / "real"
    stub.write_text("nameserver 127.0.0.53\noptions edns0\n")
    real.write_text("# real\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\nnameserver 2001:db8::1\n")
    assert host.nameservers((stub, real)) == ["10.0.0.53"]
    assert host.nameservers((stub, tmp_path / "missing")) == []


@pytest.mark.parametrize(("mask", "may"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_lowering_an_oom_score_takes_a_capability(mask: str, may: bool) -> None:
    assert host.may_lower_oom_score(f"Name:\tx\nCapEff:\t{mask}\n") is may


def test_a_failed_command_shows_what_it_said() -> None:
    with pytest.raises(CommandFailedError, match=r"sh -c .* failed with 3: wrong thing"):
        command.run(["sh", "-c", "echo wrong thing >&2; exit 3"])
    with pytest.raises(CommandFailedError, match="not-a-program is not installed; run: iris-devcluster setup"):
        command.run(["not-a-program"])


def test_missing_packages_without_apt_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "missing_packages", lambda: ["runc"])
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(DevclusterError, match="apt-get install runc"):
        packages.ensure_packages(Progress())


def test_a_dynamic_busybox_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic = tmp_path / "busybox"
    dynamic.write_bytes(b"ELF /lib64/ld-linux-x86-64.so.2")
    monkeypatch.setattr("iris_devcluster.packages.BUSYBOX", dynamic)
    assert "busybox-static" in packages.missing_packages()


def test_processes_are_found_by_their_mark() -> None:
    env = {**os.environ, processes.CLUSTER_MARK: "iris-test99", processes.MACHINE_MARK: "n"}
    child = subprocess.Popen(["sleep", "60"], env=env)
    try:
        assert processes.marked("iris-test99") == {child.pid}
        assert processes.marked("iris-test99", "n") == {child.pid}
        assert processes.marked("iris-test99", "other") == set()
        assert processes.inner_pid(child.pid) == child.pid
    finally:
        processes.kill([child.pid])
        assert processes.wait_gone([child.pid], 5) == set()
        child.wait()
    processes.kill([child.pid])
    assert processes.environment(child.pid) == {}
