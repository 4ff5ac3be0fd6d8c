"""One command that runs in a sandbox of containerd's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, in_namespace, translate, translated, unless_gone
from iris_runtimes.containerd.fifos import InputPipe, OutputPipe
from iris_runtimes.containerd.proto import tasks_pb2
from iris_runtimes.execution import Output, Stream
from iris_runtimes.streams import merged

_KILL = 9
_END_SECONDS = 5.0


@dataclass(frozen=True)
class Streams:
    """Its pipes; a terminal has no standard error, few commands have input."""

    stdin: InputPipe | None
    stdout: OutputPipe
    stderr: OutputPipe | None


class ContainerdSession:
    """Satisfies execution.ExecSession."""

    def __init__(
        self,
        channel: rpc.Channel,
        namespace: str,
        sandbox_id: str,
        exec_id: str,
        folder: Path,
        streams: Streams,
        sweep: Callable[[], Awaitable[object]],
    ) -> None:
        """`sweep` ends what the command has started."""
        self.exec_id = exec_id
        self.sandbox_id = sandbox_id
        self._namespace = namespace
        self._call = call_options(namespace)
        self._tasks = rpc.Service(channel, tasks_pb2, "Tasks")
        self._folder = folder
        self._streams = streams
        self._sweep = sweep
        self._ending: asyncio.Task[int] | None = None
        self._closed = False

    def begun(self) -> None:
        """It runs: from now on its end is watched for."""
        if self._streams.stdin is not None:
            self._streams.stdin.reader_has_come()
        self._ending = asyncio.create_task(self._end())

    async def output(self) -> AsyncGenerator[Output, None]:
        pipes = {Stream.STDOUT: self._streams.stdout}
        if self._streams.stderr is not None:
            pipes[Stream.STDERR] = self._streams.stderr
        async with aclosing(merged({stream: pipe.read for stream, pipe in pipes.items()})) as pieces:
            async for piece in pieces:
                yield piece

    async def write(self, data: bytes) -> None:
        if self._streams.stdin is not None:
            await self._streams.stdin.write(data)

    async def end_input(self) -> None:
        if self._streams.stdin is None:
            return
        self._streams.stdin.close()
        request = tasks_pb2.CloseIORequest(container_id=self.sandbox_id, exec_id=self.exec_id, stdin=True)
        async with translated():
            await unless_gone(self._tasks.CloseIO(request, **self._call))

    async def resize(self, columns: int, rows: int) -> None:
        if self._streams.stderr is not None:
            return
        request = tasks_pb2.ResizePtyRequest(
            container_id=self.sandbox_id, exec_id=self.exec_id, width=columns, height=rows
        )
        with suppress(rpc.RpcError):  # it has ended meanwhile
            await self._tasks.ResizePty(request, **self._call)

    async def wait(self) -> int:
        assert self._ending is not None
        return await asyncio.shield(self._ending)

    async def kill(self) -> None:
        """The command by containerd, what it has started by a shell of the image's, where it has one.

        containerd can signal the command alone, and an agent in a Pod does not see the node's processes.
        """
        await self._kill_command()
        await self._sweep()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._ending is not None and not self._ending.done():
                await self.kill()
                await asyncio.wait([self._ending], timeout=_END_SECONDS)
        finally:  # the pipes are ours, also when containerd is away
            await self.abandon()

    async def abandon(self) -> None:
        """Let go of the pipes and of containerd's record; the command is not asked."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        for pipe in (self._streams.stdin, self._streams.stdout, self._streams.stderr):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        request = tasks_pb2.DeleteProcessRequest(container_id=self.sandbox_id, exec_id=self.exec_id)
        with suppress(rpc.RpcError):  # never made, or gone with its sandbox
            await self._tasks.DeleteProcess(request, **self._call)

    async def _end(self) -> int:
        request = tasks_pb2.WaitRequest(container_id=self.sandbox_id, exec_id=self.exec_id)
        try:
            async with translated():
                answer = await self._tasks.Wait(request, metadata=in_namespace(self._namespace))
            return int(answer.exit_status)
        finally:
            if self._streams.stdin is not None:  # the shim reads on when nobody takes it
                self._streams.stdin.close()

    async def _kill_command(self) -> None:
        request = tasks_pb2.KillRequest(container_id=self.sandbox_id, exec_id=self.exec_id, signal=_KILL)
        try:
            await unless_gone(self._tasks.Kill(request, **self._call))
        except rpc.RpcError as error:
            if error.code() is not rpc.StatusCode.FAILED_PRECONDITION and "finished" not in (error.details() or ""):
                raise translate(error) from error
