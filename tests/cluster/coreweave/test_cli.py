"""`iris-devcluster cloud` and the background process, on a bare API server: NodePools are served, nodes never boot."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from iris_devcluster import processes
from iris_devcluster.cli import cli
from iris_devcluster.coreweave import service
from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.coreweave.testing import Pools

pytestmark = pytest.mark.cluster


@pytest.fixture
def root(connection: Connection, tmp_path: Path, pools: Pools) -> Iterator[Path]:
    """A cluster's root directory that leads to the bare API server; the simulator is ended with the test."""
    (tmp_path / "cluster.json").write_text(json.dumps({"name": "test", "octet": 1}))
    config = {
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": connection.server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "c", "user": {"token": connection.token}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    yield tmp_path
    service.stop(tmp_path)


def run(root: Path, *arguments: str, fails: bool = False) -> Result:
    result = CliRunner().invoke(cli, ["--root", str(root), "cloud", *arguments])
    assert (result.exit_code != 0) == fails, (result.output, result.exception)
    return result


def status(root: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(run(root, "status", "-o", "json").stdout)
    return data


def wait_for(root: Path, what: str, expected: object, path: Any) -> None:
    end = time.monotonic() + 15
    while (found := path(status(root))) != expected:
        assert time.monotonic() < end, f"{what} is {found!r}, not {expected!r}"
        time.sleep(0.2)


def apply(root: Path, name: str, **spec: Any) -> None:
    """Create a NodePool without an event loop of the test's."""
    import urllib.request
    from ssl import CERT_NONE, create_default_context

    config = yaml.safe_load((root / "kubeconfig").read_text())
    context = create_default_context()
    context.check_hostname, context.verify_mode = False, CERT_NONE
    body = {
        "apiVersion": "compute.coreweave.com/v1alpha1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"instanceType": "cd-gp-i64-erapids", "targetNodes": 1, **spec},
    }
    url = config["clusters"][0]["cluster"]["server"] + "/apis/compute.coreweave.com/v1alpha1/nodepools"
    token = config["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    urllib.request.urlopen(request, context=context, timeout=5).close()


def test_a_life(root: Path) -> None:
    assert "serves NodePools" in run(root, "start").stdout
    first = service.state(root)
    assert "serves NodePools" in run(root, "start").stdout
    assert service.state(root) == first, "a second start changes nothing"
    run(root, "set", "--boot", "never")
    apply(root, "mine", targetNodes=2)
    wait_for(root, "in progress", 2, lambda data: sum(pool["inProgress"] for pool in data["nodePools"]))
    os.kill(first.controller, signal.SIGKILL)
    wait_for(root, "restarted", True, lambda data: data["controller"]["pid"] not in (0, first.controller))
    run(root, "set", "--capacity", "0")
    apply(root, "other")
    wait_for(
        root,
        "capacity",
        {"mine": "Sufficient", "other": "QueuedAwaitingCapacity"},
        lambda data: {pool["name"]: pool["conditions"]["Capacity"] for pool in data["nodePools"]},
    )
    table = run(root, "status").stdout
    assert "QueuedAwaitingCapacity" in table
    assert "capacity: 0" in table or "'capacity': 0" in table
    assert run(root, "stop").stdout == "stopped\n"
    assert run(root, "stop").stdout == "it did not run\n"
    assert not service.state(root).running


def test_a_killed_keeper_takes_its_controller_along(root: Path) -> None:
    run(root, "start")
    first = service.state(root)
    os.kill(first.keeper, signal.SIGKILL)
    end = time.monotonic() + 10
    while processes.alive(first.controller):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert not service.state(root).running


SETTINGS: dict[str, tuple[list[list[str]], dict[str, Any]]] = {
    "for all types": ([["set", "--boot-seconds", "1500"]], {"defaults": {"bootSeconds": 1500.0}}),
    "for one type": (
        [["set", "--instance-type", "turin-gp", "--quota", "4", "--capacity", "2"]],
        {"instanceTypes": {"turin-gp": {"quota": 4, "capacity": 2}}},
    ),
    "no limit again": ([["set", "--quota", "4"], ["set", "--quota", "none"]], {"defaults": {"quota": None}}),
    "the size of nodes": ([["set", "--node-cpu", "1", "--node-memory", "2Gi"]], {"nodeCpu": "1", "nodeMemory": "2Gi"}),
    "the other name": ([["set", "--boot-failure", "slow"]], {"defaults": {"boot": "slow"}}),
    "a fault of a pool to come": ([["fault", "p", "--boot", "never"]], {"nodePools": {"p": {"boot": "never"}}}),
    "faults add up": (
        [["fault", "p", "--gpus", "0"], ["fault", "p", "--not-ready"]],
        {"nodePools": {"p": {"gpus": 0, "power": "frozen"}}},
    ),
    "cleared": ([["set", "--quota", "1"], ["fault", "p", "--power-cut"], ["clear"]], {"defaults": {"quota": 1}}),
    "cleared by name": (
        [["fault", "p", "--gpus", "1"], ["fault", "q", "--gpus", "1"], ["clear", "p"]],
        {"nodePools": {"q": {"gpus": 1}}},
    ),
    "all cleared": ([["set", "--quota", "1"], ["fault", "p", "--gpus", "1"], ["clear", "--all"]], {}),
}


@pytest.mark.parametrize(("commands", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_settings(root: Path, commands: list[list[str]], expected: dict[str, Any]) -> None:
    for command in commands:
        run(root, *command)
    assert status(root)["settings"] == expected


def test_refusals(root: Path) -> None:
    run(root, "fault", "p", "--refuse", "delete", "--refuse", "create")
    run(root, "fault", "*", "--refuse", "delete")
    assert status(root)["refusals"] == {"create": ["p"], "delete": ["*", "p"]}
    run(root, "clear")
    assert status(root)["refusals"] == {}


WRONG: dict[str, tuple[list[str], str]] = {
    "an unknown type": (["set", "--instance-type", "x", "--quota", "1"], "see: iris-devcluster cloud types"),
    "a word for a number": (["set", "--quota", "many"], "give a number or none"),
    "no fault": (["fault", "p"], "say what should go wrong"),
    "no size": (["set", "--node-memory", "lots"], "is not a quantity"),
}


@pytest.mark.parametrize(("command", "message"), WRONG.values(), ids=WRONG)
def test_wrong(root: Path, command: list[str], message: str) -> None:
    result = run(root, *command, fails=True)
    assert message in result.output + str(result.exception)


def test_yaml(root: Path) -> None:
    assert yaml.safe_load(run(root, "status", "-o", "yaml").stdout)["machines"] == []


def test_types_are_listed() -> None:
    output = CliRunner().invoke(cli, ["cloud", "types"]).stdout
    assert "gd-8xh100ib-i128" in output
    assert "racks of 18" in output


def test_a_kubeconfig_with_everything_inside(tmp_path: Path) -> None:
    from iris_devcluster.coreweave.kube import read_kubeconfig

    config = {
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": "c", "user": {"token": "t", "unused-data": base64.b64encode(b"x").decode()}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    found = read_kubeconfig(tmp_path / "kubeconfig")
    assert (found.server, found.context, found.token) == ("http://127.0.0.1:1", None, "t")
