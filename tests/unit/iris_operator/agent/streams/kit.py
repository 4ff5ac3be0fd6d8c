"""A node's streams on the fake runtime, on a unix socket; and a gateway without rights, so that the CLI finds them by name."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
from aiohttp import web

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.agent.sandbox import labels
from iris_operator.agent.server import LogState
from iris_operator.agent.streams.app import add_stream_routes
from iris_operator.agent.streams.source import StreamSource
from iris_operator.api.names import container_id
from iris_operator.api.streams import STREAM_API
from iris_operator.api.task import Task
from iris_operator.cli.session import Session
from iris_operator.gateway.answers import Refusal
from iris_operator.gateway.target import of_task
from iris_operator.ports.errors import UnavailableError, error_for
from iris_operator.ports.kube import SLICES, TASKS
from iris_runtimes.fake import FakeRuntime
from iris_runtimes.protocol import CgroupParent, Credentials, Sandbox, SandboxSpec

UID = "6dad5bce-aaa1-4e3e-be79-27a1842a2106"
_TASK = re.compile(rf"{STREAM_API}/namespaces/default/tasks/([^/]+)/(\w+)")
_SLICE = re.compile(rf"{STREAM_API}/namespaces/default/slices/([^/]+)/(\w+)")


class StreamNode:
    """The handlers, served. `state` is every log's; `problem` the agent's."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs"
        self.runtime = FakeRuntime()
        self.state: LogState = "ended"
        self.problem = ""
        self.asked_secrets: list[str] = []
        self.gpus = 0
        self._socket = str(folder / "s")
        self.session = aiohttp.ClientSession("http://node", connector=aiohttp.UnixConnector(self._socket))

    async def serve(self) -> web.AppRunner:
        app = web.Application()
        add_stream_routes(app, self.source())
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.UnixSite(runner, self._socket).start()
        return runner

    def source(self) -> StreamSource:
        return StreamSource(
            self.runtime, self.logs, self.logs.parent, lambda uid, attempt: self.state, self._sandboxes,
            lambda: self.problem, lambda: {"node": "n"}, self._credentials, lambda: self.gpus,
        )  # fmt: skip

    def _sandboxes(self, uid: str | None) -> Sequence[Sandbox]:
        return [one for one in self.runtime.sandboxes.values() if uid in (None, one.labels[labels.TASK_UID])]

    async def _credentials(self, image: str, names: Sequence[str]) -> list[Credentials]:
        self.asked_secrets += names
        return []

    async def start(
        self, name: str = "t", uid: str = UID, command: Sequence[str] = ("sleep", "1"), **more: Any
    ) -> Sandbox:
        """Run attempt 1 of a Task."""
        named = {
            labels.TASK_UID: uid, labels.TASK_NAME: name, labels.TASK_NAMESPACE: "default", labels.ATTEMPT: "1",
            labels.GPUS: more.pop("gpus", ""),
        }  # fmt: skip
        spec = SandboxSpec(
            container_id(uid, 1), "image", self.log(uid), CgroupParent("/x"), named, command=command, **more
        )
        return await self.runtime.start(spec)

    def log(self, uid: str = UID, attempt: int = 1) -> Path:
        return self.logs / uid / str(attempt) / "output.log"

    def write(self, data: bytes, uid: str = UID, attempt: int = 1) -> Path:
        path = self.log(uid, attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        return path

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self.session.get(path) as response:
            return response.status, await response.read()

    async def refused(self, method: str, path: str) -> tuple[int, str]:
        """Status and message of a refusal."""
        async with self.session.request(method, path) as response:
            body = json.loads(await response.read())
            assert body["kind"] == "Status" and body["code"] == response.status
            return response.status, body["message"]


class Gateway(FakeKube):
    """The fake API; what is below stream.iris.dev goes to one node, whatever Slice is named."""

    def __init__(self, node: StreamNode) -> None:
        super().__init__()
        self.node = node
        self.asked: list[str] = []

    @property
    def cli(self) -> Session:
        return Session(cast(KubeClient, self), "default")

    async def task(self, name: str = "t", **status: Any) -> str:
        """A running Task; its uid."""
        binding = {
            "sliceName": "s", "nodeName": "n", "workerPod": "s-worker-0", "workerUid": "u", "rank": 0, "attempt": 1,
            "boundAt": "2026-11-21T11:59:59Z",
        }  # fmt: skip
        body = {"metadata": {"name": name}, "spec": {"image": "registry.test/task:1", "binding": binding}}
        made = await self.create(TASKS, body, "default")
        started = {"phase": "Running", "attempt": 1, "startTime": "2026-11-21T12:00:00Z", **status}
        await self.patch(TASKS, name, {"status": started}, namespace="default", subresource="status")
        return str(made["metadata"]["uid"])

    async def slice(self, name: str = "s", ready: bool = True, group: str = "") -> None:
        body = {"metadata": {"name": name}, "spec": {"instanceType": "x", "scaleGroupName": group}}
        await self.create(SLICES, body, "default")
        nodes = [{"rank": 0, "name": "n", "ready": ready, "workerPod": f"{name}-worker-0"}]
        await self.patch(SLICES, name, {"status": {"nodes": nodes}}, namespace="default", subresource="status")

    async def request(self, method: str, path: str, *, params: Any = None, body: Any = None) -> dict[str, Any]:
        async with self.open(method, path, params=params) as response:
            found: dict[str, Any] = json.loads(await response.read())
            return found

    @asynccontextmanager
    async def open(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        self.asked.append(path)
        try:
            async with self.node.session.request(method, await self._there(path), **options) as response:
                if response.status >= 400:
                    status = json.loads(await response.read())
                    raise error_for(response.status, status["reason"], status["message"])
                yield response
        except aiohttp.ClientError as error:
            raise UnavailableError(0, "Unreachable", str(error)) from error

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Sequence[tuple[str, str]] = ()
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        try:
            async with self.node.session.ws_connect(await self._there(path), params=params) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as refused:
            async with self.open("GET", path, params=params):
                raise AssertionError("a refusal is told to an ordinary call too") from refused

    async def _there(self, path: str) -> str:
        if found := _TASK.fullmatch(path):
            body = await self.get(TASKS, found[1], "default")
            wanted = of_task(Task.parse(body), found[2], "")
            if isinstance(wanted, Refusal):
                raise error_for(wanted.status, wanted.reason, wanted.message)
            return wanted.path
        found = _SLICE.fullmatch(path)
        assert found, path
        await self.get(SLICES, found[1], "default")
        return f"/v1/{found[2]}"


@asynccontextmanager
async def stream_node(folder: Path) -> AsyncIterator[StreamNode]:
    """Served until the end."""
    node = StreamNode(folder)
    runner = await node.serve()
    try:
        yield node
    finally:
        await node.session.close()
        await runner.cleanup()
