"""worker.hostNetwork false: worker Pods and their Tasks have a network of their own, and all that leads to them still does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from iris_devcluster.nodes import Cluster
from tests.e2e.product.world import World

pytestmark = pytest.mark.e2e

SLICE = "apart"
SERVE = """
readlink /proc/self/ns/net
mkdir -p /www; echo hello >/www/index.html
httpd -f -p $IRIS_HOST_IP:$IRIS_PORT_HTTP -h /www &
until printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 $IRIS_HOST_IP $IRIS_PORT_HTTP 2>/dev/null | grep hello; do sleep 0.2; done
wait
"""


@pytest.fixture
def apart(world: World) -> Iterator[dict[str, Any]]:
    """The worker Pod of a slice whose IrisCluster has Pods on their own network."""
    default = world.get("iriscluster", "default")
    assert default is not None
    spec = default["spec"]
    world.apply("IrisCluster", SLICE, {**spec, "worker": {**spec.get("worker", {}), "hostNetwork": False}})
    world.apply("Slice", SLICE, {"instanceType": "cd-gp-i64-erapids", "clusterName": SLICE})
    world.kubectl("wait", "--for=condition=Ready", f"slice/{SLICE}", "--timeout=120s")
    pod = world.get("pod", f"{SLICE}-worker-0")
    assert pod is not None
    yield pod
    world.kubectl("delete", f"task/{SLICE}", f"slice/{SLICE}", "--ignore-not-found", "--timeout=60s")
    world.kubectl("delete", f"iriscluster/{SLICE}", "--timeout=60s")


def test_a_task_on_its_pods_network(world: World, apart: dict[str, Any]) -> None:
    address = apart["status"]["podIP"]
    assert address != apart["status"]["hostIP"]
    probe = {"httpGet": {"port": "http"}, "periodSeconds": 1}
    # What `serviceName` names need not be there for its EndpointSlice to be.
    world.task(
        SLICE, SERVE, clusterName=SLICE, ports=[{"name": "http"}], readinessProbe=probe, serviceName=SLICE,
        placement={"sliceName": SLICE}, terminationGracePeriodSeconds=0,
    )  # fmt: skip

    def ready() -> dict[str, Any] | None:
        found = (world.get("task", SLICE) or {}).get("status", {})
        conditions = {one["type"]: one["status"] for one in found.get("conditions", [])}
        return found if conditions.get("Ready") == "True" else None

    status = world.until(ready, "the Task to be ready: its agent asks it by its address")
    assert status["hostIP"] == address
    # Through the gateway, which asks the agent at the Pod's address and has it prove itself.
    lines = world.until(lambda: [one for one in world.log(SLICE).splitlines() if one], "the Task's log")
    seen = Cluster.open(world.root).node_exec(world.node_of(SLICE), ["readlink", "/proc/self/ns/net"]).stdout
    assert lines[0].startswith("net:[")
    assert lines[0] != (seen.decode() if isinstance(seen, bytes) else seen).strip()
    shown = world.iris("exec", SLICE, "--", "sh", "-c", "ip -o -4 addr show eth0; cat /etc/resolv.conf")
    assert f"inet {address}/" in shown
    assert "cluster.local" in shown

    def endpoint() -> list[str]:
        found = world.objects("endpointslices", "-l", f"kubernetes.io/service-name={SLICE}")
        return [each for one in found for end in one.get("endpoints", []) for each in end["addresses"]]

    assert world.until(endpoint, "the Task's endpoint") == [address]
