"""What a node uses, out of the kernel's own files; and GPUs out of nvidia-smi's words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HERTZ = 100  # USER_HZ: 100 on every Linux that Iris runs on
_NOT_THE_NODES_TRAFFIC = ("lo", "veth", "cali", "cilium", "lxc", "cni", "docker", "br-", "tunl", "kube")

GPU_QUERY = ("nvidia-smi", "--query-gpu=uuid,utilization.gpu,memory.used,memory.total",
             "--format=csv,noheader,nounits")  # fmt: skip


def cpu_use(stat: str) -> dict[str, Any]:
    """/proc/stat: seconds that all cores together have worked since the boot, and how many there are."""
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    ticks = [int(word) for word in lines[0][1:9]]  # guests' time is within user's
    idle = ticks[3] + ticks[4]
    return {"cpuSeconds": (sum(ticks) - idle) / _HERTZ, "cpuCores": len(lines) - 1}


def memory_use(meminfo: str) -> dict[str, Any]:
    """/proc/meminfo, in bytes: what is in use is what could not be had at once."""
    found = {
        name: int(rest.split()[0]) * 1024 for name, _, rest in (each.partition(":") for each in meminfo.splitlines())
    }
    total, free = found["MemTotal"], found.get("MemAvailable", found["MemFree"])
    return {"memoryBytes": total - free, "memoryTotalBytes": total}


def network_use(net_dev: str) -> dict[str, Any]:
    """/proc/net/dev: bytes since the boot over the node's own interfaces; not those that only lead to Pods."""
    received = sent = 0
    for line in net_dev.splitlines()[2:]:
        name, _, rest = line.partition(":")
        if not name.strip().startswith(_NOT_THE_NODES_TRAFFIC):
            numbers = rest.split()
            received, sent = received + int(numbers[0]), sent + int(numbers[8])
    return {"receivedBytes": received, "sentBytes": sent}


def disk_use(block: int, blocks: int, free: int, available: int) -> dict[str, Any]:
    """statvfs' numbers, as df counts: what root alone may still take is neither used nor free."""
    used = (blocks - free) * block
    return {"diskBytes": used, "diskTotalBytes": used + available * block}


def gpu_use(lines: str) -> list[dict[str, Any]]:
    """The answer to GPU_QUERY; a GPU that doesn't say something (`[N/A]`) has no such entry."""
    found: list[dict[str, Any]] = []
    for line in lines.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 4:
            entry: dict[str, Any] = {"id": words[0]}
            factors: Mapping[str, int] = {"utilizationPercent": 1, "memoryBytes": 2**20, "memoryTotalBytes": 2**20}
            for (name, factor), word in zip(factors.items(), words[1:], strict=True):
                if word.isdigit():
                    entry[name] = int(word) * factor
            found.append(entry)
    return found
