"""What it costs: processor seconds and memory of the processes, writes to the API. Read before and after; subtract."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster.cgroups import hierarchies
from iris_devcluster.identity import CONTROL_PLANE
from iris_devcluster.nodes import Cluster
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.kube import PODS
from tests.perf.observe import Unmeasured
from tests.perf.target import Target

OPERATOR_SELECTOR = "app.kubernetes.io/name=iris-operator"
WHOLE_NODE = "the node: all, with shims, runc and the commands"
TOTAL = "total: control plane, operator, node"
ON_NODE = ("agent 1", "containerd", "kubelet")
"""Processes that WHOLE_NODE counts already."""
_OPERATOR_PORT, _AGENT_PORT = 10000, 10001
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_COUNTED = ("tasks", "slices", "pods", "jobs", "events", "leases")


@dataclass(frozen=True)
class Usage:
    """At one moment. Processor seconds since each process began; writes since each counter began."""

    cpu_seconds: Mapping[str, float]
    cpu_seconds_after: Mapping[str, float]
    """When the rest had been read: reading the API server's metrics is work for it too."""
    rss_mib: Mapping[str, float]
    writes: Mapping[str, float]
    """By who counted it, verb and resource, such as `operator patch tasks`."""


@dataclass(frozen=True)
class Spent:
    """Between two moments."""

    cpu_seconds: Mapping[str, float]
    writes: Mapping[str, float]


def spent(before: Usage, after: Usage) -> Spent:
    """Unmeasured when a process was restarted in between."""
    cpu = {name: round(after.cpu_seconds.get(name, 0) - value, 2) for name, value in before.cpu_seconds_after.items()}
    restarted = [name for name, value in cpu.items() if value < 0]
    if restarted:
        raise Unmeasured(f"restarted while it was measured: {', '.join(restarted)}")
    writes = {name: value - before.writes.get(name, 0) for name, value in after.writes.items()}
    return Spent(cpu, {name: value for name, value in sorted(writes.items()) if value})


async def read_usage(target: Target) -> Usage:
    """The present state of all that takes part."""
    operators = await target.api.list(PODS, target.namespace, labels=OPERATOR_SELECTOR)
    uids = [pod["metadata"]["uid"] for pod in operators.items]
    pids = {
        **_programs(target.cluster, target.node),
        **_in_pods("iris-operator", "operator", uids),
        **_in_pods("iris-agent", "agent", [target.worker_uid]),
    }
    for name in ("operator 1", "agent 1"):
        if name not in pids:
            raise Unmeasured(f"no process of the {name.split()[0]} is found on this machine")
    cpu = _cpu(target, pids)
    writes: Counter[str] = Counter()
    for pod in operators.items:
        path = PODS.path(target.namespace, f"{pod['metadata']['name']}:{_OPERATOR_PORT}", "proxy/metrics")
        writes += own_writes(await text(target.api, path), "operator")
    agent = PODS.path(target.namespace, f"{target.worker_pod}:{_AGENT_PORT}", "proxy/metrics")
    writes += own_writes(await text(target.api, agent), "agent")
    writes += server_writes(await text(target.api, "/metrics"))
    return Usage(cpu, _cpu(target, pids), {name: rss_mib(pid) for name, pid in pids.items()}, writes)


def own_writes(text: str, who: str) -> Counter[str]:
    """Iris' own counters."""
    found: Counter[str] = Counter()
    for name, labels, value in _SAMPLE.findall(text):
        if name == f"iris_{who}_api_writes_total":
            values = dict(_LABEL.findall(labels))
            found[f"{who}: {values['verb']} {values['resource']}"] += int(float(value))
    return found


def server_writes(text: str) -> Counter[str]:
    """The API server's own count: everybody's, and those it refused too."""
    return _server_requests(text, _WRITES, _COUNTED)


def server_reads(text: str, resources: Container[str]) -> Counter[str]:
    """The same of reads; watches are not among them."""
    return _server_requests(text, ("GET", "LIST"), resources)


def _server_requests(text: str, verbs: Container[str], resources: Container[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, labels, value in _SAMPLE.findall(text):
        if name != "apiserver_request_total":
            continue
        values = dict(_LABEL.findall(labels))
        if values["verb"] in verbs and values["resource"] in resources:
            resource = "/".join(part for part in (values["resource"], values.get("subresource", "")) if part)
            found[f"API server: {values['verb'].lower()} {resource}"] += int(float(value))
    return found


async def text(api: KubeClient, path: str) -> str:
    """GET as text."""
    async with api.open("GET", path, headers={"Accept": "text/plain"}) as response:
        return await response.text()


def _programs(cluster: Cluster, node: str) -> dict[str, int]:
    """The control plane's and the node's programs: name -> host pid."""
    found = {one.name: one.pid for one in cluster.machine(CONTROL_PLANE).states() if one.pid}
    found.update(cluster.node_pids(node))
    return {name: pid for name, pid in found.items() if name not in ("coredns", "kube-proxy")}


def _in_pods(program: str, name: str, uids: list[str]) -> dict[str, int]:
    """Processes of a program in these Pods: `<name> 1` ... -> host pid."""
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line, cgroup = (entry / "cmdline").read_bytes(), (entry / "cgroup").read_text()
        except OSError:
            continue  # it has ended
        if program.encode() in line and any(uid in cgroup for uid in uids):
            pids.append(int(entry.name))
    return {f"{name} {number}": pid for number, pid in enumerate(sorted(pids), 1)}


def _cpu(target: Target, pids: Mapping[str, int]) -> dict[str, float]:
    found = {name: cpu_seconds(pid) for name, pid in pids.items()}
    whole = _groupcpu_seconds(target.cluster.machine(target.node).cgroup)
    return {**found, WHOLE_NODE: whole} if whole is not None else found


def _groupcpu_seconds(group: str) -> float | None:
    """Of all processes that are or were in a control group and below it; None where nobody counts."""
    for hierarchy in hierarchies():
        folder = hierarchy.mountpoint / group
        if "cpuacct" in hierarchy.options.split(","):
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        if hierarchy.unified and "cpu" in (folder / "cgroup.controllers").read_text().split():
            return (
                int(dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())["usage_usec"]) / 1e6
            )
    return None


def cpu_seconds(pid: int) -> float:
    """User and system time of a process; that of children it has waited for too (containerd's shims do runc's)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError as error:
        raise Unmeasured(f"process {pid} ended while it was measured") from error
    return sum(int(fields[index]) for index in (11, 12, 13, 14)) / _TICKS_PER_SECOND


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
