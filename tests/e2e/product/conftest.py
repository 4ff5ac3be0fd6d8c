"""The whole product on a cluster of the tests' own: real nodes, the installed chart, examples. Gone when the session ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.product.world import CHART, REPOSITORY, World, run


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An embedded cluster with the simulated CoreWeave and Iris, timeouts short enough for tests."""
    root = tmp_path_factory.mktemp("iris-e2e")
    made = World(root)
    made.devcluster("down")
    try:
        made.devcluster("up")
        made.devcluster("cloud", "start")
        made.devcluster("cloud", "set", "--boot-seconds", "0.5")
        values = root / "images.yaml"
        made.devcluster("images", "--values", str(values))
        run([made.helm, "install", "iris", str(CHART), "--values", str(values), "--wait", "--timeout", "2m"], made.env)
        yield made
    finally:
        made.devcluster("down")


@pytest.fixture(scope="package")
def slice_name(world: World) -> str:
    """A Ready one-node CPU slice that tests of Tasks share."""
    world.apply("Slice", "shared", {"instanceType": "cd-gp-i64-erapids"})
    world.kubectl("wait", "--for=condition=Ready", "slice/shared", "--timeout=120s")
    return "shared"


@pytest.fixture(scope="module", autouse=True)
def tasks_go_with_their_module(world: World) -> Iterator[None]:
    """What one file's Tasks leave on a node would fail another's tests."""
    yield
    world.kubectl("delete", "task", "--all", "--timeout=120s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A failure shows what the cluster looked like."""
    report = yield
    world = getattr(item, "funcargs", {}).get("world")
    if report.when == "call" and report.failed and isinstance(world, World):
        for title, command in {
            "objects": ["get", "iris,nodepools,nodes,pods", "-o", "wide"],
            "events": ["get", "events", "--sort-by=.lastTimestamp"],
            "operator": ["logs", "deploy/iris-operator", "--tail=60"],
            "agents": ["logs", "-l", "iris-managed=true", "--tail=60", "--prefix"],
        }.items():
            shown = subprocess.run(
                [world.kubectl_path, *command],
                env=world.env,
                capture_output=True,
                text=True,
                cwd=REPOSITORY,
                check=False,
            )
            report.sections.append((title, (shown.stdout + shown.stderr)[-6000:]))
    return report
