"""A machine that is no node of the cluster: its agent registers, gets a certificate, and runs what the operator places there."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iris_devcluster.identity import Identity
from iris_devcluster.images.binary import task_image
from iris_devcluster.images.oci import write_archive
from iris_operator.api.names import CONTAINERD_NAMESPACE
from tests.e2e.product.world import REPOSITORY, World
from tests.e2e.runtimes.private_containerd import PrivateContainerd

pytestmark = pytest.mark.e2e

SLICE, IMAGE = "machines", "registry.test/iris/task:dev"
ACCESS = (
    ("create", "serviceaccount", SLICE),
    ("create", "rolebinding", SLICE, "--role=iris-agent", f"--serviceaccount=default:{SLICE}"),
    ("create", "clusterrolebinding", SLICE, "--clusterrole=default-iris-agent", f"--serviceaccount=default:{SLICE}"),
)


def _kubeconfig(world: World, folder: Path) -> Path:
    """One of the ServiceAccount that the Slice names, with a token that no Pod has."""
    for words in ACCESS:
        world.kubectl(*words)
    token = world.kubectl("create", "token", SLICE, "--duration=1h").strip()
    view = json.loads(world.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    view["users"] = [{"name": view["users"][0]["name"], "user": {"token": token}}]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert "pod" not in claims["kubernetes.io"]
    path = folder / "kubeconfig"
    path.write_text(json.dumps(view))
    return path


@pytest.fixture
def machine(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """This very machine, with a containerd and an agent, as the unit in runtimes/systemd starts it. Its name."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "containerd").mkdir()
    containerd = PrivateContainerd(folder / "containerd", f"machine-{os.getpid()}")
    containerd.namespace = CONTAINERD_NAMESPACE
    env = {
        **os.environ, "POD_NAMESPACE": "default", "IRIS_SLICE": SLICE, "HOST_IP": Identity.load(world.root).host_address,
        "IRIS_CONTAINERD_SOCKET": str(containerd.socket), "IRIS_CACHE_DIR": str(folder / "cache"),
        "IRIS_CGROUP_PARENT": containerd.cgroup, "IRIS_BUSYBOX": str(shutil.which("busybox")), "IRIS_CPU": "2",
        "IRIS_MEMORY": "1Gi", "IRIS_PORT": "10011", "IRIS_STREAM_PORT": "10012",
    }  # fmt: skip
    command = [str(REPOSITORY / ".venv/bin/iris-agent"), "--kubeconfig", str(_kubeconfig(world, folder))]
    agent = None
    try:
        containerd.start()
        write_archive(folder / "task.tar", task_image({}), [IMAGE])
        containerd.call("images", "import", str(folder / "task.tar"))
        with (folder / "log").open("wb") as log:
            agent = subprocess.Popen([*command, "--node-name", "m0"], env=env, stdout=log, stderr=log)
        yield "m0"
    finally:
        world.kubectl("delete", f"task/{SLICE}", f"slice/{SLICE}", "--ignore-not-found", "--timeout=60s")
        if agent is not None:
            agent.terminate()
            agent.wait(20)
            sys.stdout.write((folder / "log").read_text()[-6000:])  # shown when the test fails
        containerd.sweep()
        world.kubectl("delete", f"lease/{SLICE}-worker-0", "--ignore-not-found")
        for words in ACCESS:
            world.kubectl("delete", f"{words[1]}/{words[2]}")


def test_a_task_is_placed_on_a_machine_and_its_log_read_through_the_gateway(world: World, machine: str) -> None:
    world.apply("Slice", SLICE, {"instanceType": "machine", "external": {"serviceAccountName": SLICE}})
    world.kubectl("wait", "--for=condition=Ready", f"slice/{SLICE}", "--timeout=60s")
    found = world.get("slice", SLICE)
    assert found is not None
    (node,) = found["status"]["nodes"]
    assert (node["name"], node["allocatable"]) == (machine, {"cpu": "1900m", "memory": "768Mi"})
    assert world.get("nodepool", f"default-{SLICE}") is None
    assert world.get("pod", f"{SLICE}-worker-0") is None
    script = "trap 'echo bye; exit 3' TERM; echo up on $IRIS_NODE_NAME; while :; do sleep 0.1; done"
    world.task(SLICE, script, image=IMAGE, imagePullPolicy="Never", placement={"sliceName": SLICE})
    running = world.wait_phase(SLICE, "Running")
    assert running["status"]["nodeName"] == machine
    world.until(lambda: "up on m0" in world.log(SLICE), "the log, through the gateway")
    assert world.iris("exec", SLICE, "--", "echo", "inside").strip() == "inside"
    # The operator can't end what it has no Pod of: it tells the Task, and the agent ends it.
    world.kubectl("annotate", f"slice/{SLICE}", "iris.dev/force-delete=true")
    world.kubectl("delete", f"slice/{SLICE}", "--timeout=60s")
    assert world.wait_phase(SLICE, "Pending")["status"]["attempts"][0]["reason"] == "SliceDeleted"
