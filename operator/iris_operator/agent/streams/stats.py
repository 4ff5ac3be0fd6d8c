"""What Tasks and the node use. CPU and network are counted since the beginning: ask twice for a rate."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from iris_operator.agent.sandbox.labels import TASK_NAME, TASK_NAMESPACE, facts
from iris_operator.agent.streams.node_use import GPU_QUERY, cpu_use, disk_use, gpu_use, memory_use, network_use
from iris_operator.agent.streams.source import TASK, StreamSource, refusal, running_sandbox
from iris_runtimes.errors import RuntimeFault, RuntimeUnavailable
from iris_runtimes.execution import ExecRequest, Stats
from iris_runtimes.lifecycle import run_command
from iris_runtimes.protocol import Runtime, Sandbox, SandboxState

_SIDE_BY_SIDE = 8
_GPU_SECONDS = 5.0
# nvidia-smi takes a second on a node of eight: not for everyone who looks
_GPU_AGE_SECONDS = 10.0


def add_stats(app: web.Application, source: StreamSource) -> None:
    """GET .../stats of a Task, /v1/stats of the node."""
    gpus = _Gpus(source.runtime)
    slots = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def of_task(request: web.Request) -> web.Response:
        sandbox = running_sandbox(source, request)
        try:
            return web.json_response(await _task_use(source, sandbox, gpus))
        except RuntimeUnavailable as fault:
            raise refusal(503, str(fault)) from fault
        except RuntimeFault as fault:
            raise refusal(409, str(fault)) from fault

    async def of_node(_: web.Request) -> web.Response:
        async def one(sandbox: Sandbox) -> dict[str, Any] | None:
            async with slots:
                try:
                    return await _task_use(source, sandbox, gpus)
                except RuntimeFault:  # it has just ended
                    return None

        running = [each for each in source.sandboxes(None) if each.state is SandboxState.RUNNING]
        tasks = [found for found in await asyncio.gather(*map(one, running)) if found is not None]
        node = await asyncio.to_thread(_node_use, source.cache_dir)
        use = [each for task in tasks for each in task["gpuUse"]]
        gpus_here = {"gpus": source.gpus(), "gpusBy": await source.gpu_way(), "gpuUse": use}
        return web.json_response({**source.describe(), **node, **gpus_here, "tasks": tasks})

    app.router.add_get(f"{TASK}/stats", of_task)
    app.router.add_get("/v1/stats", of_node)


async def _task_use(source: StreamSource, sandbox: Sandbox, gpus: _Gpus) -> dict[str, Any]:
    """Raises RuntimeFault when it does not run any more."""
    use = await source.runtime.stats(sandbox.id)
    found = facts(sandbox)
    return {
        "name": sandbox.labels.get(TASK_NAME, ""),
        "namespace": sandbox.labels.get(TASK_NAMESPACE, ""),
        "uid": found.task_uid,
        "attempt": found.attempt,
        **_wire(use),
        "gpus": list(found.gpus),
        "gpuUse": await gpus.of(sandbox.id) if found.gpus else [],
        "logBytes": await asyncio.to_thread(
            _size, source.logs_dir / found.task_uid / str(found.attempt) / "output.log"
        ),
    }


def _wire(use: Stats) -> dict[str, Any]:
    known = {
        "at": use.at.isoformat(),
        "cpuSeconds": use.cpu_seconds,
        "memoryBytes": use.memory_bytes,
        "workingSetBytes": use.working_set_bytes,
        "memoryLimitBytes": use.memory_limit_bytes,
        "memoryPeakBytes": use.memory_peak_bytes,
        "pids": use.pids,
        "throttledSeconds": use.throttled_seconds,
    }
    return {name: value for name, value in known.items() if value is not None}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _node_use(cache_dir: Path) -> dict[str, Any]:
    disk = os.statvfs(cache_dir)
    return {
        "at": datetime.now(UTC).isoformat(),
        **cpu_use(Path("/proc/stat").read_text()),
        **memory_use(Path("/proc/meminfo").read_text()),
        **disk_use(disk.f_frsize, disk.f_blocks, disk.f_bfree, disk.f_bavail),
        **network_use(Path("/proc/net/dev").read_text()),
    }


class _Gpus:
    """What a Task's GPUs do, by the nvidia-smi that comes into its sandbox with the driver's libraries."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: dict[str, tuple[float, list[dict[str, Any]]]] = {}

    async def of(self, sandbox_id: str) -> list[dict[str, Any]]:
        """Empty when there is no nvidia-smi, or it does not answer."""
        now = time.monotonic()
        self._known = {one: kept for one, kept in self._known.items() if now - kept[0] < _GPU_AGE_SECONDS}
        if sandbox_id not in self._known:
            try:
                done = await run_command(self._runtime, sandbox_id, ExecRequest(GPU_QUERY), _GPU_SECONDS)
                use = gpu_use(done.output.decode(errors="replace")) if done.exit_code == 0 else []
            except RuntimeFault:
                use = []
            self._known[sandbox_id] = (now, use)
        return self._known[sandbox_id][1]
