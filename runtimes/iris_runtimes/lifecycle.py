"""What takes several calls of a runtime."""

from __future__ import annotations

import asyncio
import signal

from iris_runtimes.protocol import Exit, Runtime, SandboxSpec


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
