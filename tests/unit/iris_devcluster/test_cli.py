"""The command line without a cluster: help, choices, and errors that say what to do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from iris_devcluster.cli import cli, default_root, main
from iris_devcluster.errors import DevclusterError
from iris_devcluster.machines.machine import ProcessState
from iris_devcluster.node_commands import parse_spec
from iris_devcluster.status import ClusterStatus, MachineStatus
from iris_devcluster.tables import print_status


@pytest.mark.parametrize("command", ["up", "down", "status", "setup", "kubeconfig", "node", "cloud", "images"])
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 4


def test_the_root_is_beside_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert default_root() == tmp_path / "deep" / "er" / ".iris"
    (tmp_path / ".git").mkdir()
    assert default_root() == tmp_path / ".iris"


def test_an_expected_error_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["iris-devcluster", "status", "--root", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == (
        f"error: no cluster in {tmp_path}; start one with: iris-devcluster up --root {tmp_path}\n"
    )


@pytest.mark.parametrize("before", [True, False])
def test_root_may_stand_before_or_after_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    seen: list[tuple[Path, str]] = []
    monkeypatch.setattr("iris_devcluster.lifecycle.down", lambda root, name, progress: seen.append((root, name)))
    place = ["--root", str(tmp_path), "--name", "n"]
    CliRunner().invoke(cli, [*place, "down"] if before else ["down", *place], catch_exceptions=False)
    assert seen == [(tmp_path, "n")]


def test_a_node_is_described_by_words() -> None:
    spec = parse_spec("n-1", ["a=b", "c="], ["d=e=f"], ["k=v:NoSchedule", "only:NoExecute"], ["cpu=1"])
    assert dict(spec.labels) == {"a": "b", "c": ""}
    assert dict(spec.annotations) == {"d": "e=f"}
    assert list(spec.taints) == [
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"key": "only", "value": "", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize(
    ("name", "label", "taint", "said"),
    [
        ("UPPER", "a=b", "k=v:NoSchedule", "'UPPER' can't name a node"),
        ("n", "novalue", "k=v:NoSchedule", "'novalue' is not KEY=VALUE"),
        ("n", "a=b", "k=v:Sometimes", "'k=v:Sometimes' is not KEY=VALUE:EFFECT"),
    ],
)
def test_a_wrong_word_is_named(name: str, label: str, taint: str, said: str) -> None:
    with pytest.raises(DevclusterError, match=said):
        parse_spec(name, [label], [], [taint], [])


def test_the_status_table_shows_what_is_broken_and_the_way_out() -> None:
    kubelet = ProcessState("kubelet", 0, "restarting", 3, "exit 1")
    broken = MachineStatus("n-0", "10.1.0.10", "Broken", "kubelet is restarting (exit 1)", 7, [kubelet])
    status = ClusterStatus("iris", "/r", "https://10.1.0.2:6443", "/r/kubeconfig", "10.1.0.1:5000", [broken])
    out = io.StringIO()
    print_status(status, Console(file=out, width=160))
    assert not status.ok
    assert "n-0: kubelet is restarting (exit 1). Repair with: iris-devcluster up" in out.getvalue()
    assert "exit 1" in out.getvalue()
