"""A fleet of slices on a real API server, with one operator; nodes, kubelets and agents are played.

Processor and API server are shared with those players: read the figures as costs per slice.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table

from iris_devcluster.coreweave.testing.api_server import api_server
from iris_devcluster.progress import Progress, Step
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import connect
from iris_operator.adapters.kube.informer import Informer
from iris_operator.ports.kube import IRIS_CLUSTERS, NODEPOOLS, SCALE_GROUPS, SLICES, Body, Kind
from tests.cluster.conftest import install_crds, kubeconfig_of, kubectl
from tests.cluster.controller.operators import Operator
from tests.perf.fleet_world import FleetWorld
from tests.perf.observe import Unmeasured
from tests.perf.usage import cpu_seconds, own_writes, rss_mib, server_reads, text

_NAMESPACE = "fleet"
_READ = ("slices", "scalegroups", "tasks", "irisclusters", "nodepools", "nodes", "pods", "leases", "events")
_LOOK_SECONDS = 0.25
_STALLED_SECONDS = 120.0


@dataclass(frozen=True)
class Moment:
    """The operator at one moment: processor seconds, MiB, its writes and all reads by verb and resource."""

    at: float
    cpu_seconds: float
    rss_mib: float
    writes: Counter[str]
    reads: Counter[str]


@dataclass(frozen=True)
class Fleet:
    """What was measured. Times in seconds from the groups' creation, or from their deletion."""

    slices: int
    groups: int
    ready_seconds: list[float]
    gone_seconds: float
    start: Moment
    ready: Moment
    steady: Moment
    end: Moment


class _Watcher:
    """Counts slices as a watch tells."""

    def __init__(self, api: KubeClient) -> None:
        self.began = time.monotonic()
        self.ready: dict[str, float] = {}
        self.standing: set[str] = set()
        self.failed: dict[str, str] = {}
        self.informer = Informer(api, SLICES, _NAMESPACE, self._changed)

    def _changed(self, body: Body, gone: bool) -> None:
        name, status = body["metadata"]["name"], body.get("status") or {}
        if gone:
            self.standing.discard(name)
            return
        self.standing.add(name)
        if status.get("phase") == "Ready":
            self.ready.setdefault(name, time.monotonic() - self.began)
        if status.get("phase") == "Failed":
            self.failed[name] = status.get("message", "")


async def measure(slices: int, groups: int, steady_seconds: float, progress: Progress) -> Fleet:
    """Groups of slices from nothing to Ready, at rest, and gone again."""
    with TemporaryDirectory(prefix="iris-fleet-") as folder, api_server(Path(folder), authorization="RBAC") as server:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(server)))
        _prepare(kubeconfig)
        async with KubeClient(await connect(str(kubeconfig)), user_agent="fleet", connections=32) as api:
            cluster = {"images": {"agent": "iris/agent:fleet"}, "autoscaler": {"launchesPerMinute": 10000}}
            await _create(api, IRIS_CLUSTERS, "IrisCluster", "default", cluster)
            world = FleetWorld(api, _NAMESPACE)
            async with world.playing(), _operator(kubeconfig, Path(folder) / "operator.log") as operator:
                return await _measure(api, operator, slices, groups, steady_seconds, progress)


async def _measure(
    api: KubeClient, operator: Operator, slices: int, groups: int, steady_seconds: float, progress: Progress
) -> Fleet:
    watcher = _Watcher(api)
    watching = asyncio.create_task(watcher.informer.run())
    try:
        await watcher.informer.synced.wait()
        start = await _moment(operator, api)
        watcher.began = time.monotonic()
        for number, size in enumerate(_sizes(slices, groups)):
            template = {"spec": {"instanceType": "gd-8xh100ib-i128", "gpusPerNode": 8}}
            spec = {"minSlices": size, "maxSlices": size, "template": template}
            await _create(api, SCALE_GROUPS, "ScaleGroup", f"group-{number}", spec)
        with progress.step(f"{slices} slices to Ready") as step:
            await _until(step, slices, lambda: len(watcher.ready), watcher)
        ready = await _moment(operator, api)
        with progress.step(f"at rest for {steady_seconds:.0f} s") as step:
            await asyncio.sleep(steady_seconds)
        steady = await _moment(operator, api)
        began = time.monotonic()
        for number in range(groups):
            await api.delete(SCALE_GROUPS, f"group-{number}", _NAMESPACE)
        for name in sorted(watcher.standing):  # no garbage collector here
            await api.delete(SLICES, name, _NAMESPACE)
        with progress.step(f"{slices} slices to nothing") as step:
            await _until(step, slices, lambda: slices - len(watcher.standing), watcher)
        gone = time.monotonic() - began
        left = (await api.list(NODEPOOLS)).items
        if left:
            raise Unmeasured(f"{len(left)} NodePools are left: a leak")
        times = sorted(watcher.ready.values())
        return Fleet(slices, groups, times, gone, start, ready, steady, await _moment(operator, api))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _until(step: Step, wanted: int, done: Any, watcher: _Watcher) -> None:
    best, since = -1, time.monotonic()
    while (now := done()) < wanted:
        if now > best:
            best, since = now, time.monotonic()
        if time.monotonic() - since > _STALLED_SECONDS:
            first = next(iter(watcher.failed.items()), ("", "none failed"))
            raise Unmeasured(
                f"stalled at {now} of {wanted} for {_STALLED_SECONDS:.0f} s; {len(watcher.failed)} failed: {first}"
            )
        step.update(f"{now} of {wanted}")
        await asyncio.sleep(_LOOK_SECONDS)


async def _moment(operator: Operator, api: KubeClient) -> Moment:
    """Now. Reads are the API server's count: those who play make hardly any."""
    reads = server_reads(await text(api, "/metrics"), _READ)
    return Moment(
        time.monotonic(), cpu_seconds(operator.pid), rss_mib(operator.pid), await _own_writes(operator.port), reads
    )


async def _own_writes(port: int) -> Counter[str]:
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            return own_writes(await answer.text(), "operator")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unmeasured(f"the operator does not answer: {error}") from error


@asynccontextmanager
async def _operator(kubeconfig: Path, log: Path) -> AsyncIterator[Operator]:
    operator = Operator(kubeconfig, _NAMESPACE, log, "--log-level", "WARNING")
    try:
        with _measurable():
            await operator.leads()
        yield operator
    finally:
        operator.kill()


@contextmanager
def _measurable() -> Iterator[None]:
    """What fails a test leaves a bench without a figure."""
    try:
        yield
    except AssertionError as error:
        raise Unmeasured(str(error)) from error


def _prepare(kubeconfig: Path) -> None:
    with _measurable():
        install_crds(kubeconfig)
        kubectl(kubeconfig, "create", "namespace", _NAMESPACE)
        for account in ("default", "iris-agent"):
            kubectl(kubeconfig, "--namespace", _NAMESPACE, "create", "serviceaccount", account)


async def _create(api: KubeClient, kind: Kind, name: str, object_name: str, spec: Body) -> None:
    body = {"apiVersion": kind.api_version, "kind": name, "metadata": {"name": object_name}, "spec": dict(spec)}
    await api.create(kind, body, _NAMESPACE)


def _sizes(slices: int, groups: int) -> list[int]:
    return [slices // groups + (number < slices % groups) for number in range(groups)]


def document(found: Fleet) -> dict[str, Any]:
    """All figures: seconds, MiB, requests per slice."""

    def requests(before: Moment, after: Moment) -> dict[str, float]:
        writes, reads = after.writes - before.writes, after.reads - before.reads
        counted = [("all writes", sum(writes.values())), *sorted(writes.items()), *sorted(reads.items())]
        return {name: round(value / found.slices, 2) for name, value in counted}

    up = requests(found.start, found.ready)
    rest, down = requests(found.ready, found.steady), requests(found.steady, found.end)
    at_rest = found.steady.at - found.ready.at
    return {
        "slices": found.slices,
        "groups": found.groups,
        "secondsToReady": {
            "first": round(found.ready_seconds[0], 1),
            "half": round(found.ready_seconds[len(found.ready_seconds) // 2], 1),
            "all": round(found.ready_seconds[-1], 1),
        },
        "secondsToGone": round(found.gone_seconds, 1),
        "slicesPerSecond": round(found.slices / found.ready_seconds[-1], 1),
        "operator": {
            "rssMiB": {
                "before": round(found.start.rss_mib),
                "ready": round(found.ready.rss_mib),
                "atRest": round(found.steady.rss_mib),
                "end": round(found.end.rss_mib),
            },
            "cpuMsPerSlice": {
                "up": round((found.ready.cpu_seconds - found.start.cpu_seconds) * 1000 / found.slices, 1),
                "down": round((found.end.cpu_seconds - found.steady.cpu_seconds) * 1000 / found.slices, 1),
            },
            "cpuShareAtRest": round((found.steady.cpu_seconds - found.ready.cpu_seconds) / at_rest, 3),
            "requestsPerSlice": {"up": up, "atRest": rest, "down": down},
        },
    }


def show(figures: dict[str, Any], console: Console) -> None:
    """Tables for people."""
    ready, operator = figures["secondsToReady"], figures["operator"]
    console.print(
        f"{figures['slices']} slices in {figures['groups']} groups: first Ready after {ready['first']} s, half "
        f"{ready['half']} s, all {ready['all']} s ({figures['slicesPerSecond']}/s); all gone after {figures['secondsToGone']} s"
    )
    memory, cpu = operator["rssMiB"], operator["cpuMsPerSlice"]
    console.print(
        f"Operator: {memory['before']} MiB before, {memory['ready']} when all are Ready, {memory['atRest']} at rest; "
        f"{cpu['up']} ms of CPU per slice up, {cpu['down']} down; {operator['cpuShareAtRest']:.1%} of a CPU at rest"
    )
    table = Table(title="The operator's API requests per slice")
    for title in ("", "to Ready", "at rest", "to nothing"):
        table.add_column(title, justify="right" if title else "left")
    parts = [operator["requestsPerSlice"][part] for part in ("up", "atRest", "down")]
    for name in dict.fromkeys(name for part in parts for name in part):
        table.add_row(name.partition(": ")[2] or name, *(f"{part[name]:g}" if part.get(name) else "" for part in parts))
    console.print(table)
