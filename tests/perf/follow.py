"""How fast a log is followed: the agent's own route over loopback, while another process' thread writes the file."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web
from rich.console import Console

from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.streams.logs import add_logs
from iris_operator.agent.streams.source import NOTIFY, StreamSource
from iris_runtimes.fake import FakeRuntime

_UID = "3f0c0a2e-6a7c-4d6c-9d3c-3b1f7b6c5a10"
_PIECE = b"0123456789abcde\n" * 4096
_MIB = 2**20
_READER = """
import sys, urllib.request
answer, total = urllib.request.urlopen(sys.argv[1]), 0
while piece := answer.read1(2**20):
    total += len(piece)
print(total)
"""
FOLLOW_AIM = 100.0
"""MB/s, or the disk's own speed."""


def measure_follow(mebibytes: int) -> dict[str, Any]:
    """MB/s of a writer alone and of a follower that keeps up with it; without TLS and without the API server's hop."""
    with TemporaryDirectory(prefix="iris-follow-") as folder:
        return asyncio.run(_measure(Path(folder), mebibytes * _MIB))


async def _measure(folder: Path, size: int) -> dict[str, Any]:
    alone = await asyncio.to_thread(_write, folder / "alone", size)
    path = folder / _UID / "1" / "output.log"
    path.parent.mkdir(parents=True)
    path.touch()
    over: list[bool] = []
    runtime = FakeRuntime()

    async def no_credentials(namespace: str, names: object) -> list[Any]:
        return []

    source = StreamSource(
        runtime, folder, folder, lambda uid, attempt: "ended" if over else "running", lambda uid: [], lambda: "",
        dict, no_credentials,
    )  # fmt: skip
    app = web.Application()
    app[NOTIFY] = Inotify()
    add_logs(app, source)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        began, cpu = time.monotonic(), time.process_time()
        writing = asyncio.create_task(asyncio.to_thread(_write, path, size))
        writing.add_done_callback(over.append)  # type: ignore[arg-type]
        read = await _read(f"http://127.0.0.1:{port}/v1/tasks/{_UID}/1/log?follow=true")
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        await writing
    finally:
        await runner.cleanup()
        app[NOTIFY].close()
    assert read == size, f"{read} bytes read of {size}"
    return {
        "load": round(os.getloadavg()[0], 1),
        "followMBps": round(size / seconds / 1e6, 1),
        "cpuSecondsEachGB": round(cpu / size * 1e9, 2),
        "writeAloneMBps": round(size / alone / 1e6, 1),
    }


def _write(path: Path, size: int) -> float:
    began = time.monotonic()
    with path.open("ab") as file:
        for _ in range(size // len(_PIECE)):
            file.write(_PIECE)
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - began


async def _read(url: str) -> int:
    """Bytes that a process of its own, as a person's would be, has read of it."""
    pipe = asyncio.subprocess.PIPE
    reader = await asyncio.create_subprocess_exec(sys.executable, "-c", _READER, url, stdout=pipe)
    said, _ = await reader.communicate()
    return int(said)


def show_follow(found: Mapping[str, Any], console: Console) -> None:
    """One line."""
    rate, disk = found["followMBps"], found["writeAloneMBps"]
    met = "met" if rate >= min(FOLLOW_AIM, disk) else "not met"
    console.print(
        f"A log is followed at {rate:.0f} MB/s while it is written, which alone goes at {disk:.0f} MB/s (load"
        f" {found['load']}; {found['cpuSecondsEachGB']} s of processor each GB,"
        f" the writer's included); the aim is {FOLLOW_AIM:.0f} or the disk's: {met}"
    )
