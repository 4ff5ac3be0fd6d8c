"""Straight to containerd, by the agent's own driver. Runs inside the node: the shim opens the logs by the node's paths.

python -m tests.perf.containerd_load --help
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from iris_devcluster.images.programs import program
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.protocol import PodContext, SandboxSpec
from tests.perf.observe import Unmeasured
from tests.perf.target import COMMAND, Target

NAMESPACE = "iris-bench"  # its own: the agent on this node minds only `iris`
CONCURRENCY = 8
_REPOSITORY = Path(__file__).resolve().parents[2]
_LOGS = Path("/var/cache/iris/bench")
Times = dict[str, float]


def measure(target: Target, single: int, count: int) -> Mapping[str, Any]:
    """Run this module inside the node: {"single": [{start, exit, remove seconds}], "rate": sandboxes per second}."""
    script = 'cd "$0" && exec "$@"'
    command = [sys.executable, "-m", __spec__.name, "--image", target.image, "--pod-uid", target.worker_uid]
    options = ["--single", str(single), "--count", str(count)]
    done = target.cluster.node_exec(target.node, ["sh", "-c", script, str(_REPOSITORY), *command, *options])
    if done.returncode:
        raise Unmeasured(f"straight containerd on {target.node}: {done.stderr.strip()[-2000:]}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


async def _life(runtime: ContainerdRuntime, context: PodContext, image: str, name: str) -> Times:
    """Start, exit and removal of one sandbox, in seconds each."""
    spec = SandboxSpec(
        id=name,
        image=image,
        log_path=_LOGS / name / "output.log",
        cgroup=context.cgroup,
        command=COMMAND,
        cpu_request_millicores=1,
    )
    began = time.monotonic()
    await runtime.start(spec)
    started = time.monotonic()
    await runtime.wait(name)
    ended = time.monotonic()
    await runtime.remove(name)
    return {"start": started - began, "exit": ended - started, "remove": time.monotonic() - ended}


async def _measure(image: str, pod_uid: str, single: int, count: int) -> dict[str, Any]:
    runtime = ContainerdRuntime(namespace=NAMESPACE)
    gate = asyncio.Semaphore(CONCURRENCY)

    async def bounded(name: str) -> None:
        async with gate:
            await _life(runtime, context, image, name)

    try:
        context = await runtime.pod_context(pod_uid)
        await runtime.pull(image)
        await _life(runtime, context, image, "bench-warm")
        singles = [await _life(runtime, context, image, f"bench-single-{number}") for number in range(single)]
        began = time.monotonic()
        await asyncio.gather(*(bounded(f"bench-many-{number}") for number in range(count)))
        return {"single": singles, "rate": count / (time.monotonic() - began)}
    finally:
        for sandbox in await runtime.list():
            await runtime.remove(sandbox.id)
        await runtime.close()


def _sweep() -> None:
    """Remove the namespace with its images, and the logs."""
    ctr = [str(program("ctr")), "-n", NAMESPACE]
    names = subprocess.run([*ctr, "images", "ls", "-q"], capture_output=True, text=True, check=False).stdout.split()
    if names:
        subprocess.run([*ctr, "images", "rm", "--sync", *names], capture_output=True, check=False)
    leases = subprocess.run([*ctr, "leases", "ls", "-q"], capture_output=True, text=True, check=False).stdout.split()
    if leases:
        subprocess.run([*ctr, "leases", "rm", "--sync", *leases], capture_output=True, check=False)
    subprocess.run([*ctr, "namespaces", "rm", NAMESPACE], capture_output=True, check=False)
    shutil.rmtree(_LOGS, ignore_errors=True)


@click.command(help="Measure sandboxes on this node's containerd; prints JSON.")
@click.option("--image", required=True)
@click.option("--pod-uid", required=True, help="Worker Pod whose cgroup bounds them, as it does Tasks.")
@click.option("--single", default=20, show_default=True, help="How many one at a time.")
@click.option("--count", default=100, show_default=True, help=f"How many {CONCURRENCY} at once.")
def main(image: str, pod_uid: str, single: int, count: int) -> None:
    """Measure, print, sweep."""
    try:
        click.echo(json.dumps(asyncio.run(_measure(image, pod_uid, single, count))))
    finally:
        _sweep()


if __name__ == "__main__":
    main()
