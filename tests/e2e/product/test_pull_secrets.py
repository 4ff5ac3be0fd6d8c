"""A registry that wants a password: told without the secret, run with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iris_devcluster.images.programs import program
from iris_devcluster.nodes import Cluster
from iris_devcluster.registry import Registry
from tests.e2e.product.world import World, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("slice_name")]

NAME, USER, PASSWORD = "private.iris:5001", "puller", "right-word"


@pytest.fixture(scope="module")
def private(world: World) -> Iterator[str]:
    """An image in a registry with basic auth, as nodes name it."""
    cluster = Cluster.open(world.root)
    host = cluster.registry_address.rpartition(":")[0]
    registry = Registry(f"{host}:5001", world.root, auth=(USER, PASSWORD), environment=cluster.environment())
    registry.start()
    registry.announce(cluster.certs_d, NAME)
    env = {**world.env, "DOCKER_CONFIG": str(world.root / "docker")}
    crane = str(program("crane"))
    run([crane, "auth", "login", f"{host}:5001", "-u", USER, "-p", PASSWORD], env)
    run([crane, "copy", "--insecure", f"{cluster.registry_address}/iris/task:dev", f"{host}:5001/secret/task:1"], env)
    yield f"{NAME}/secret/task:1"
    registry.stop()


def test_without_and_with_the_secret(world: World, private: str) -> None:
    world.apply("Task", "locked-out", {"image": private, "command": ["echo", "in"]})
    status = world.ended("locked-out")
    assert (status["phase"], status["reason"]) == ("Failed", "ImageUnauthorized")

    world.kubectl("create", "secret", "docker-registry", "pull", f"--docker-server={NAME}",
                  f"--docker-username={USER}", f"--docker-password={PASSWORD}")  # fmt: skip
    world.apply("Task", "let-in",
                {"image": private, "command": ["echo", "in"], "imagePullSecrets": [{"name": "pull"}]})  # fmt: skip
    status = world.ended("let-in")
    assert status["phase"] == "Succeeded", status
    assert world.iris("logs", "let-in") == "in\n"
