"""The node's own affairs: a disk that fills; logs within bounds and archived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from iris_devcluster.nodes import Cluster
from tests.e2e.product.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.usefixtures("slice_name")]


class Storage(ThreadingHTTPServer):
    """Takes what is put, and notes how it was signed; where nodes reach it."""

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), _Put)
        self.objects: dict[str, bytes] = {}
        self.signed: set[str] = set()


class _Put(BaseHTTPRequestHandler):
    server: Storage
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.server.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.signed.add(self.headers["Authorization"].split("/")[0])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def storage(world: World) -> Iterator[Storage]:
    server = Storage(Cluster.open(world.root).registry_address.rpartition(":")[0])
    Thread(target=server.serve_forever, daemon=True).start()
    world.kubectl(
        "create", "secret", "generic", "archive", "--from-literal=accessKeyID=me", "--from-literal=secretAccessKey=s"
    )
    yield server
    world.kubectl("delete", "secret", "archive")
    server.shutdown()
    server.server_close()


def _settings(world: World, **spec: Any) -> None:
    name = world.names("iriscluster")[0]
    world.kubectl("patch", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def test_a_full_disk_refuses_and_logs_are_bounded_and_archived(world: World, storage: Storage) -> None:
    """In one: both wait for agents to read their settings."""
    node = world.node_of("shared")
    archive = {
        "endpoint": f"http://{storage.server_name}:{storage.server_port}",
        "bucket": "logs",
        "secretName": "archive",
    }
    full = {"collectImagesAbovePercent": 100, "refuseTasksAbovePercent": 1}
    _settings(world, worker={"disk": full}, logs={"maxBytes": "1Mi", "archive": archive})
    try:
        world.kubectl("wait", "--for=condition=DiskPressure", "slice/shared", "--timeout=60s")
        lines = "seq -w 1 524288; sleep 4; echo last"  # 3.5 MiB
        world.task("writes", lines, placement={"sliceName": "shared"})
        refused = f"node {node} takes none: the disk of"
        world.until(lambda: refused in str(world.get("task", "writes") or ""), "the refusal to be told")
        _settings(world, worker={"disk": {"collectImagesAbovePercent": 85, "refuseTasksAbovePercent": 95}})
        assert world.ended("writes")["phase"] == "Succeeded"
        world.until(lambda: (world.get("task", "writes") or {})["status"].get("logArchive"), "the log to be archived")
        status = (world.get("task", "writes") or {})["status"]
        ((path, body),) = storage.objects.items()
        assert status["logArchive"] == archive["endpoint"] + path
        assert storage.signed == {"AWS4-HMAC-SHA256 Credential=me"}
        first, _, kept = body.partition(b"\n")
        assert b" dropped: logs.maxBytes" in first
        assert len(kept) <= 2**20
        assert kept.endswith(b"524288\nlast\n")
        assert world.iris("logs", "writes").encode() == kept
        assert world.iris("logs", "writes", "--tail", "1") == "last\n"
    finally:
        _settings(world, worker={"disk": None}, logs=None)
    pressure = world.kubectl(
        "get", "slice", "shared", "-o", "jsonpath={.status.conditions[?(@.type=='DiskPressure')].status}"
    )
    assert pressure == "False"
