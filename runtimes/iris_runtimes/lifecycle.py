"""What takes several calls of a runtime."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing
from dataclasses import dataclass

from iris_runtimes.execution import ExecRequest, ExecSession
from iris_runtimes.protocol import Exit, Runtime, SandboxSpec

# What a command has written last comes after its exit; who holds its streams longer is not waited for.
_DRAIN_SECONDS = 1.0


@dataclass(frozen=True)
class ExecResult:
    """How a command in a sandbox went. `exit_code` is None when it was ended at its timeout. `output` is both streams as
    they came, its first bytes."""

    exit_code: int | None
    output: bytes = b""
    truncated: bool = False

    @property
    def timed_out(self) -> bool:
        """Whether it was ended by us."""
        return self.exit_code is None


async def stop(runtime: Runtime, sandbox_id: str, grace_seconds: float) -> Exit:
    """SIGTERM to the command, SIGKILL to everything when it has not ended within the grace; how it ended."""
    await runtime.signal(sandbox_id, signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_seconds):
            return await runtime.wait(sandbox_id)
    except TimeoutError:
        await runtime.signal(sandbox_id, signal.SIGKILL, everyone=True)
        return await runtime.wait(sandbox_id)


async def run_to_end(runtime: Runtime, spec: SandboxSpec) -> Exit:
    """Start, wait, remove: the whole life of a sandbox, as the benchmark measures it. Its image must be on the node."""
    await runtime.start(spec)
    try:
        return await runtime.wait(spec.id)
    finally:
        await runtime.remove(spec.id)


async def run_command(
    runtime: Runtime, sandbox_id: str, request: ExecRequest, timeout_seconds: float, max_output_bytes: int = 2**16
) -> ExecResult:
    """Run a command in a sandbox to its end. At the timeout it is killed with what it has started, and only then told of."""
    session = await runtime.execute(sandbox_id, request)
    kept = _Kept(max_output_bytes)
    reading = asyncio.create_task(_read(session, kept))
    try:
        code = await _end_of(session, timeout_seconds)
        await asyncio.wait([reading], timeout=_DRAIN_SECONDS)
        return ExecResult(code, bytes(kept.data), kept.truncated)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await session.close()


async def _end_of(session: ExecSession, timeout_seconds: float) -> int | None:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await session.wait()
    except TimeoutError:
        await session.kill()
        return None


class _Kept:
    """The first bytes of an output; the rest is read and dropped, for else the command would stand still."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.truncated = False
        self._most = most

    def add(self, data: bytes) -> None:
        room = self._most - len(self.data)
        self.data += data[:room]
        self.truncated = self.truncated or len(data) > room


async def _read(session: ExecSession, kept: _Kept) -> None:
    async with aclosing(session.output()) as pieces:
        async for piece in pieces:
            kept.add(piece.data)
