"""Commands in running sandboxes: containerd's Exec, with streams through named pipes."""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, is_not_found, status_of, unless_gone
from iris_runtimes.containerd.fifos import InputPipe, OutputPipe
from iris_runtimes.containerd.proto import containers_pb2, process_pb2, tasks_pb2
from iris_runtimes.containerd.session import ContainerdSession, Streams
from iris_runtimes.containerd.start_errors import start_error
from iris_runtimes.errors import InvalidSpec, NodeFault, RuntimeFault, SandboxNotFound, SandboxNotRunning
from iris_runtimes.execution import ExecRequest
from iris_runtimes.hold import holds
from iris_runtimes.sweep import MARK, sweep_request

PROCESS_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Process"
EXEC_FOLDER = Path("/var/cache/iris/exec")  # the same path for us and for containerd's shims
EXEC_PREFIX = "exec-"  # of a session's or a sweep's process; a sandbox inside another has its own id
_SWEEP_SECONDS = 10.0
_NOTED_SECONDS = 0.2


class Executor:
    """Makes sessions in the sandboxes of one containerd namespace."""

    def __init__(self, channel: rpc.Channel, namespace: str, folder: Path) -> None:
        self._channel = channel
        self._namespace = namespace
        self._folder = folder
        self._call = call_options(namespace)
        self._containers = rpc.Service(channel, containers_pb2, "Containers")
        self._tasks = rpc.Service(channel, tasks_pb2, "Tasks")

    async def execute(self, sandbox_id: str, request: ExecRequest, outer: str = "") -> ContainerdSession:
        """See protocol.Runtime.execute. `outer`: what the sandbox is inside of. Raises rpc.RpcError for what a caller
        can't know better."""
        if not request.command:
            raise InvalidSpec("a command to run in a sandbox needs at least a program")
        exec_id = f"{EXEC_PREFIX}{uuid.uuid4().hex}"
        spec = process_spec(await self._process_of(sandbox_id), request, exec_id)
        sandbox_id = outer or sandbox_id
        folder = self._folder / exec_id
        try:
            folder.mkdir(parents=True, mode=0o700)
            streams = _open_streams(folder, request)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise NodeFault(f"the pipes in {folder} can't be made: {error.strerror}") from error
        sweep = partial(self.sweep, sandbox_id, exec_id)
        session = ContainerdSession(self._channel, self._namespace, sandbox_id, exec_id, folder, streams, sweep)
        try:
            await self._begin(sandbox_id, exec_id, folder, request, spec)
        except rpc.RpcError as error:
            await session.abandon()
            raise await self.failure(error, sandbox_id, request.command[0]) from error
        except BaseException:
            await session.abandon()
            raise
        session.begun()
        if request.terminal:
            await session.resize(request.columns, request.rows)
        return session

    async def failure(self, error: rpc.RpcError, sandbox_id: str, command: str) -> RuntimeFault:
        """What it means that a command could not be started in a sandbox."""
        code, _ = status_of(error)
        if is_not_found(error) or code is rpc.StatusCode.FAILED_PRECONDITION:
            return _not_running(sandbox_id)
        failure = start_error(error, command, f"of sandbox {sandbox_id}")
        if isinstance(failure, NodeFault) and not await self._still_runs(sandbox_id):
            return _not_running(sandbox_id)
        return failure

    async def _still_runs(self, sandbox_id: str) -> bool:
        """Whether the sandbox does; asked a little later, for its end may not have been noted yet."""
        await asyncio.sleep(_NOTED_SECONDS)
        request = tasks_pb2.GetRequest(container_id=sandbox_id)
        found = await unless_gone(self._tasks.Get(request, **self._call))
        return found is not None and found.process.status == process_pb2.RUNNING

    async def _begin(
        self, sandbox_id: str, exec_id: str, folder: Path, request: ExecRequest, process: dict[str, Any]
    ) -> None:
        ask = tasks_pb2.ExecProcessRequest(
            container_id=sandbox_id,
            exec_id=exec_id,
            stdin=str(folder / "stdin") if request.stdin else "",
            stdout=str(folder / "stdout"),
            stderr="" if request.terminal else str(folder / "stderr"),
            terminal=request.terminal,
            spec=AnyMessage(type_url=PROCESS_TYPE, value=json.dumps(process).encode()),
        )
        await self._tasks.Exec(ask, **self._call)
        await self._tasks.Start(tasks_pb2.StartRequest(container_id=sandbox_id, exec_id=exec_id), **self._call)

    async def sweep(self, sandbox_id: str, exec_id: str, signal: int = 9) -> bool:
        """Signal a command and its descendants, as root, by the sandbox's own shell; False when that could not be."""
        own = f"{EXEC_PREFIX}{uuid.uuid4().hex}-sweep"
        with suppress(rpc.RpcError, TimeoutError, SandboxNotFound):
            main = await self._process_of(sandbox_id)
            busybox = main["args"][-1] if holds(main["args"]) else ""
            process = process_spec(main, sweep_request(exec_id, signal, busybox), own)
            ask = tasks_pb2.ExecProcessRequest(
                container_id=sandbox_id,
                exec_id=own,
                spec=AnyMessage(type_url=PROCESS_TYPE, value=json.dumps(process).encode()),
            )
            await self._tasks.Exec(ask, **self._call)
            try:
                await self._tasks.Start(tasks_pb2.StartRequest(container_id=sandbox_id, exec_id=own), **self._call)
                async with asyncio.timeout(_SWEEP_SECONDS):
                    await self._tasks.Wait(tasks_pb2.WaitRequest(container_id=sandbox_id, exec_id=own), **self._call)
            finally:
                gone = tasks_pb2.DeleteProcessRequest(container_id=sandbox_id, exec_id=own)
                await self._tasks.DeleteProcess(gone, **self._call)
            return True
        return False

    async def _process_of(self, sandbox_id: str) -> dict[str, Any]:
        try:
            found = await self._containers.Get(containers_pb2.GetContainerRequest(id=sandbox_id), **self._call)
        except rpc.RpcError as error:
            if is_not_found(error):
                raise SandboxNotFound(f"no sandbox {sandbox_id}") from error
            raise
        process: dict[str, Any] = json.loads(found.container.spec.value)["process"]
        return process


def process_spec(main: dict[str, Any], request: ExecRequest, exec_id: str) -> dict[str, Any]:
    """The process of an exec: as the sandbox's own but for what the request says. Pure."""
    env = dict(pair.partition("=")[::2] for pair in main["env"])
    env.update(request.env)
    if request.terminal:
        env.setdefault("TERM", "xterm")
    env[MARK] = exec_id
    user = dict(main["user"])
    if request.user is not None:
        user = {"uid": request.user, "gid": request.group or 0}
    elif request.group is not None:
        user["gid"] = request.group
    return {
        **main,
        "args": list(request.command),
        "env": [f"{name}={value}" for name, value in env.items()],
        "cwd": request.working_dir or main["cwd"],
        "user": user,
        "terminal": request.terminal,
        **({"consoleSize": {"width": request.columns, "height": request.rows}} if request.terminal else {}),
    }


def _open_streams(folder: Path, request: ExecRequest) -> Streams:
    outputs: Sequence[str] = ("stdout",) if request.terminal else ("stdout", "stderr")
    opened = {name: OutputPipe(folder / name) for name in outputs}
    return Streams(InputPipe(folder / "stdin") if request.stdin else None, opened["stdout"], opened.get("stderr"))


def _not_running(sandbox_id: str) -> SandboxNotRunning:
    return SandboxNotRunning(f"sandbox {sandbox_id} does not run: nothing can be run in it")
