"""A Docker Engine's socket for tests: its documented answers, with processes of this machine in place of containers.

From the Engine's API reference (1.43 and later): paths, status codes, the frames of its streams, events kept for `since`. It
is stricter in one thing: a field of a body that the reference does not have is refused, for a slip of the pen would pass unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.unit.iris_runtimes.docker.fake_process import FakeProcess, Missing

VERSION = "/v1.46"
CREATE_KEYS = {
    "Image", "Env", "WorkingDir", "User", "Hostname", "Labels", "Entrypoint", "Cmd", "HostConfig", "Tty", "OpenStdin",
}  # fmt: skip
HOST_KEYS = {
    "NetworkMode", "CpuShares", "PidsLimit", "ShmSize", "OomScoreAdj", "Privileged", "CapAdd", "CapDrop", "GroupAdd",
    "RestartPolicy", "LogConfig", "Mounts", "Devices", "DeviceRequests", "CgroupParent", "SecurityOpt", "CpuPeriod",
    "CpuQuota", "Ulimits", "Memory", "MemorySwap",
}  # fmt: skip
EXEC_KEYS = {
    "AttachStdin", "AttachStdout", "AttachStderr", "Tty", "Cmd", "Env", "WorkingDir", "User", "Privileged", "ConsoleSize",
}  # fmt: skip
_RUNC = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
)
_INIT = "unable to start container process: "


class Refused(Exception):
    """An answer with an error's status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class FakeContainer:
    """What the Engine knows of one."""

    name: str
    body: dict[str, Any]
    process: FakeProcess | None = None
    failed: bool = False

    def shown(self) -> dict[str, Any]:
        """GET /containers/ID/json."""
        process = self.process
        state: dict[str, Any] = {"Status": "created", "Pid": 0, "ExitCode": 0, "OOMKilled": False}
        state["FinishedAt"] = "0001-01-01T00:00:00Z"
        if process is not None:
            running = process.code is None
            state |= {"Status": "running" if running else "exited", "Pid": process.pid if running else 0}
            state |= {} if running else {"ExitCode": process.code, "FinishedAt": process.ended_at}
        return {"Id": self.name, "Name": f"/{self.name}", "State": state, "Config": {"Labels": self.body["Labels"]}}


@dataclass
class FakeEngine:
    """`images`: full name -> digest. `pullable`: those that a pull brings. `kubelets`: id -> what it shows of a container
    that the kubelet has made."""

    socket: Path
    images: dict[str, str] = field(default_factory=dict)
    pullable: dict[str, str] = field(default_factory=dict)
    secret_for: dict[str, str] = field(default_factory=dict)
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    execs: dict[str, FakeProcess] = field(default_factory=dict)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    own_command: list[str] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=lambda: {"CgroupDriver": "cgroupfs", "Runtimes": {"runc": {}}})
    kubelets: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeEngine]:
        """While the body runs it answers; afterwards nothing of it is left."""
        self._happened = asyncio.Condition()
        server = await asyncio.start_unix_server(self._connection, str(self.socket))
        try:
            yield self
        finally:
            server.close()
            for one in [*(c.process for c in self.containers.values()), *self.execs.values()]:
                if one is not None:
                    await one.destroy()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest if line)}
            raw = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = first.split(" ")
            url = urlsplit(target)
            self.asked.append(f"{method} {url.path}")
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            call = Call(method, unquote(url.path), query, json.loads(raw or b"null"), headers, reader, writer)
            try:
                await self._answer(call)
            except Refused as refusal:
                await call.reply({"message": refusal.message}, refusal.status)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, call: Call) -> None:
        if call.path == "/version":
            return await call.reply({"Version": "27.1.1", "ApiVersion": VERSION[2:]})
        if not call.path.startswith(f"{VERSION}/"):
            raise Refused(404, "page not found")
        parts = call.path.removeprefix(f"{VERSION}/").split("/")
        handlers: dict[str, Callable[[Call, list[str]], Awaitable[None]]] = {
            "info": self._info, "containers": self._containers, "exec": self._exec, "images": self._images,
            "events": self._events,
        }  # fmt: skip
        if parts[0] not in handlers:
            raise Refused(404, "page not found")
        return await handlers[parts[0]](call, parts[1:])

    async def _info(self, call: Call, parts: list[str]) -> None:
        await call.reply(self.info)

    async def _containers(self, call: Call, parts: list[str]) -> None:
        if parts == ["json"]:
            await self._list(call)
            return
        if parts[0] in self.kubelets:
            await call.reply(self.kubelets[parts[0]])
            return
        if parts == ["create"]:
            await self._create(call)
            return
        container = self.containers.get(parts[0])
        if container is None:
            raise Refused(404, f"No such container: {parts[0]}")
        action = {"GET json": self._shown, "POST start": self._start, "POST kill": self._kill, "POST wait": self._wait,
                  "GET logs": self._logs, "GET stats": self._stats, "POST exec": self._make_exec,
                  "DELETE ": self._delete}[f"{call.method} {''.join(parts[1:2])}"]  # fmt: skip
        await action(call, container)

    async def _list(self, call: Call) -> None:
        wanted = dict(label.split("=", 1) for label in json.loads(call.query["filters"])["label"])
        found = [
            {"Id": one.name, "Names": [f"/{one.name}"], "Image": one.body["Image"]}
            for one in self.containers.values()
            if wanted.items() <= one.body["Labels"].items()
        ]
        for name, shown in self.kubelets.items():
            if wanted.items() <= shown["Config"]["Labels"].items():
                found.append({"Id": name, "Names": [f"/{name}"], "Image": shown["Config"]["Image"]})
        await call.reply(found)

    async def _shown(self, call: Call, container: FakeContainer) -> None:
        await call.reply(container.shown())

    async def _create(self, call: Call) -> None:
        unknown = (set(call.body) - CREATE_KEYS) | (set(call.body["HostConfig"]) - HOST_KEYS)
        if unknown:
            raise Refused(400, f"unknown fields: {unknown}")
        if call.body["Image"] not in self.images:
            raise Refused(404, f"No such image: {call.body['Image']}")
        if not call.body.get("Entrypoint") and not call.body.get("Cmd"):
            raise Refused(400, "no command specified")
        name = call.query["name"]
        if name in self.containers:
            raise Refused(409, f'Conflict. The container name "/{name}" is already in use')
        self.containers[name] = FakeContainer(name, call.body)
        self.bodies[name] = call.body
        await call.reply({"Id": name, "Warnings": []}, 201)

    async def _start(self, call: Call, container: FakeContainer) -> None:
        if container.process is not None:
            return await call.reply(None, 304)
        command = [*(container.body.get("Entrypoint") or []), *(container.body.get("Cmd") or [])]
        try:
            container.process = await FakeProcess.begin(command, container.body["Env"], container.body["WorkingDir"])
        except Missing as missing:
            raise Refused(400, f"{_RUNC}{_INIT}{missing}: unknown") from missing
        container.process.on_end(lambda: self._died(container))
        await call.reply(None, 204)
        return None

    def _died(self, container: FakeContainer) -> None:
        attributes = {"name": container.name, **container.body["Labels"]}
        self.events.append({"Type": "container", "Action": "die", "Actor": {"Attributes": attributes}})
        asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        async with self._happened:
            self._happened.notify_all()

    async def _kill(self, call: Call, container: FakeContainer) -> None:
        if container.process is None or container.process.code is not None:
            raise Refused(409, f"container {container.name} is not running")
        container.process.signal(int(call.query["signal"]))
        await call.reply(None, 204)

    async def _wait(self, call: Call, container: FakeContainer) -> None:
        if container.process is not None:
            await container.process.ended()
        await call.reply({"StatusCode": container.process.code if container.process else 0})

    async def _delete(self, call: Call, container: FakeContainer) -> None:
        if container.process is not None:
            if container.process.code is None and call.query.get("force") != "1":
                raise Refused(409, "cannot remove a running container")
            await container.process.destroy()
        del self.containers[container.name]
        await call.reply(None, 204)

    async def _logs(self, call: Call, container: FakeContainer) -> None:
        await call.begin("application/vnd.docker.multiplexed-stream")
        if container.process is not None:
            async for number, data in container.process.written(follow=call.query.get("follow") == "1"):
                await call.send(struct.pack(">BxxxL", number, len(data)) + data)

    async def _stats(self, call: Call, container: FakeContainer) -> None:
        running = container.process is not None and container.process.code is None
        memory = {"usage": 5_000_000, "limit": container.body["HostConfig"].get("Memory", 2**40),
                  "stats": {"inactive_file": 1_000_000}}  # fmt: skip
        cpu = {"cpu_usage": {"total_usage": 123_456_789}, "throttling_data": {"throttled_time": 1000}}
        shown = {"read": "2026-01-02T03:04:05.123456789Z", "cpu_stats": cpu, "pids_stats": {"current": 1}}
        await call.reply({**shown, "memory_stats": memory if running else {}})

    async def _make_exec(self, call: Call, container: FakeContainer) -> None:
        if set(call.body) - EXEC_KEYS:
            raise Refused(400, f"unknown fields: {set(call.body) - EXEC_KEYS}")
        if container.process is None or container.process.code is not None:
            raise Refused(409, f"container {container.name} is not running")
        env = [*container.body["Env"], *call.body["Env"]]
        made = FakeProcess(call.body["Cmd"], env, call.body["WorkingDir"], call.body["Tty"], call.body["AttachStdin"])
        self.execs[made.name] = made
        await call.reply({"Id": made.name}, 201)

    async def _exec(self, call: Call, parts: list[str]) -> None:
        process = self.execs.get(parts[0])
        if process is None:
            raise Refused(404, f"No such exec instance: {parts[0]}")
        if parts[1] == "json":
            return await call.reply({"Running": process.running, "ExitCode": process.code, "Pid": process.pid})
        if parts[1] == "resize":
            process.resize(int(call.query["w"]), int(call.query["h"]))
            return await call.reply(None)
        if size := call.body.get("ConsoleSize"):
            process.size = (size[1], size[0])
        if call.body["Detach"]:
            await process.start()
            return await call.reply(None)
        return await self._attach(call, process)

    async def _attach(self, call: Call, process: FakeProcess) -> None:
        """Hijacked: the answer first, and only then what kept it from starting."""
        kind = "raw" if process.terminal else "multiplexed"
        await call.begin(f"application/vnd.docker.{kind}-stream", status="101 UPGRADED", upgrade=True)
        try:
            await process.start()
        except Missing as missing:
            process.code = 127
            words = f"OCI runtime exec failed: exec failed: {_INIT}{missing}: unknown\r\n".encode()
            return await call.send(words if process.terminal else struct.pack(">BxxxL", 1, len(words)) + words)
        feeding = asyncio.create_task(process.feed(call.reader))
        async for number, data in process.written(follow=True):
            await call.send(data if process.terminal else struct.pack(">BxxxL", number, len(data)) + data)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        return None

    async def _images(self, call: Call, parts: list[str]) -> None:
        if parts == ["create"]:
            return await self._pull(call)
        name = "/".join(parts[:-1] if call.method == "GET" else parts)
        if name not in self.images:
            raise Refused(404, f"No such image: {name}")
        if call.method == "DELETE":
            if name in {c.body["Image"] for c in self.containers.values()}:
                raise Refused(409, f"conflict: unable to remove repository reference {name}")
            del self.images[name]
            return await call.reply([{"Untagged": name}])
        digests = [f"{name.rpartition(':')[0]}@{self.images[name]}"]
        shown = {"Id": "sha256:" + "1" * 64, "RepoDigests": digests, "Size": 12345, "Config": {"Cmd": self.own_command}}
        return await call.reply(shown)

    async def _pull(self, call: Call) -> None:
        name = call.query["fromImage"]
        await call.begin("application/json")
        secret = self.secret_for.get(name)
        if secret is not None and call.headers.get("x-registry-auth") != secret:
            words = f"Head https://registry/v2/{name}: 401 Unauthorized"
            return await call.line({"error": words, "errorDetail": {"message": words}})
        if name not in self.pullable:
            words = f"manifest for {name} not found: manifest unknown: manifest unknown"
            return await call.line({"error": words, "errorDetail": {"message": words}})
        await call.line({"status": "Pulling from", "id": "1"})
        for done in (10, 60):
            await call.line({"status": "Downloading", "id": "aa", "progressDetail": {"current": done, "total": 100}})
        await call.line({"status": "Pull complete", "id": "aa", "progressDetail": {}})
        self.images[name] = self.pullable[name]
        return None

    def _more_than(self, seen: int) -> bool:
        return len(self.events) > seen

    async def _events(self, call: Call, parts: list[str]) -> None:
        wanted = json.loads(call.query["filters"])
        assert wanted["event"] == ["die"]
        await call.begin("application/json")
        seen = 0
        while True:
            async with self._happened:
                await self._happened.wait_for(partial(self._more_than, seen))
            for event in self.events[seen:]:
                await call.line(event)
            seen = len(self.events)


@dataclass
class Call:
    """One request, and its answer."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def reply(self, body: Any, status: int = 200) -> None:
        """The whole answer."""
        content = b"" if body is None else json.dumps(body).encode()
        length = "" if status in (204, 304) else f"Content-Length: {len(content)}\r\n"
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{length}Connection: close\r\n\r\n"
        await self.send(head.encode() + content)

    async def begin(self, kind: str, status: str = "200 OK", upgrade: bool = False) -> None:
        """An answer that ends with the connection."""
        connection = "Connection: Upgrade\r\nUpgrade: tcp" if upgrade else "Connection: close"
        await self.send(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{connection}\r\n\r\n".encode())

    async def send(self, data: bytes) -> None:
        """More of it."""
        self.writer.write(data)
        await self.writer.drain()

    async def line(self, body: Any) -> None:
        """A line of JSON."""
        await self.send(json.dumps(body).encode() + b"\r\n")
