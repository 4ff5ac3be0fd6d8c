"""A warm start beside a bare exec of containerd: /bin/true in a sandbox that stays, on a containerd of its own."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from rich.console import Console

from iris_devcluster.images.binary import task_image
from iris_devcluster.images.oci import write_archive
from iris_runtimes import rpc
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.containerd.channel import call_options, open_channel
from iris_runtimes.containerd.executor import PROCESS_TYPE
from iris_runtimes.containerd.proto import containers_pb2, tasks_pb2
from iris_runtimes.hold import BUSYBOX, hold_spec
from iris_runtimes.protocol import CgroupParent, Mount, SandboxSpec
from tests.e2e.runtimes.private_containerd import PrivateContainerd
from tests.perf.stats import latency
from tests.perf.target import COMMAND

_IMAGE = "registry.test/iris/task:dev"
_OUTER = "bench-hold"


def measure_warm(count: int) -> dict[str, Any]:
    """Milliseconds until a command runs, `count` times in turns: by Iris' runtime with its log and record, and bare."""
    with TemporaryDirectory(prefix="iris-warm-") as name:
        folder = Path(name)
        containerd = PrivateContainerd(folder, f"warm-{os.getpid()}")
        try:
            containerd.start()
            write_archive(folder / "task.tar", task_image({}), [_IMAGE])
            containerd.call("images", "import", str(folder / "task.tar"))
            iris, bare = asyncio.run(_measure(containerd, folder, count))
        finally:
            containerd.sweep()
    ours, theirs = latency(iris), latency(bare)
    ratio = round(ours["p50"] / theirs["p50"], 2)
    return {"load": round(os.getloadavg()[0], 1), "warmStartMs": ours, "bareExecMs": theirs, "ratioWarmOverExec": ratio}


async def _measure(containerd: PrivateContainerd, folder: Path, count: int) -> tuple[list[float], list[float]]:
    runtime = ContainerdRuntime(str(containerd.socket), containerd.namespace, exec_folder=folder / "exec")
    channel = open_channel(str(containerd.socket))
    call = call_options(containerd.namespace)
    tasks, containers = rpc.Service(channel, tasks_pb2, "Tasks"), rpc.Service(channel, containers_pb2, "Containers")

    def spec(name: str, inside: str = "") -> SandboxSpec:
        return SandboxSpec(
            id=name, image=_IMAGE, log_path=folder / "logs" / name / "output.log", cgroup=CgroupParent(containerd.cgroup),
            mounts=[Mount("/bin/busybox", BUSYBOX, read_only=True)], command=COMMAND, inside=inside,
        )  # fmt: skip

    async def warm(name: str) -> Callable[[], Awaitable[None]]:
        await runtime.start(spec(name, _OUTER))

        async def end() -> None:
            await runtime.wait(name)
            await runtime.remove(name)

        return end

    async def bare(name: str) -> Callable[[], Awaitable[None]]:
        ids: dict[str, Any] = {"container_id": _OUTER, "exec_id": name}
        await tasks.Exec(tasks_pb2.ExecProcessRequest(spec=process, **ids), **call)
        await tasks.Start(tasks_pb2.StartRequest(**ids), **call)

        async def end() -> None:
            await tasks.Wait(tasks_pb2.WaitRequest(**ids), **call)
            await tasks.DeleteProcess(tasks_pb2.DeleteProcessRequest(**ids), **call)

        return end

    try:
        await runtime.start(hold_spec(spec(_OUTER)))
        found = await containers.Get(containers_pb2.GetContainerRequest(id=_OUTER), **call)
        main = json.loads(found.container.spec.value)["process"]
        process = AnyMessage(type_url=PROCESS_TYPE, value=json.dumps({**main, "args": COMMAND}).encode())
        times: dict[Any, list[float]] = {warm: [], bare: []}
        for number in range(-2, count):  # the first of each only warm up
            for way in (warm, bare):
                began = time.monotonic()
                end = await way(f"task-{way.__name__}-{number + 2}")
                if number >= 0:
                    times[way].append(time.monotonic() - began)
                await end()
        return times[warm], times[bare]
    finally:
        await runtime.remove(_OUTER)
        await channel.close()
        await runtime.close()


def show_warm(found: Mapping[str, Any], console: Console) -> None:
    """Two lines."""
    iris, bare = found["warmStartMs"], found["bareExecMs"]
    console.print(
        f"Warm start in a sandbox that stays: p50 {iris['p50']:.0f} ms, p99 {iris['p99']:.0f} ms; a bare exec of containerd"
        f" {bare['p50']:.0f} and {bare['p99']:.0f} ms (load {found['load']})"
    )
    met = "met" if found["ratioWarmOverExec"] <= WARM_AIM else "not met"
    console.print(f"A warm start takes {found['ratioWarmOverExec']:.2f} times an exec; the aim is {WARM_AIM}: {met}")


WARM_AIM = 1.5
