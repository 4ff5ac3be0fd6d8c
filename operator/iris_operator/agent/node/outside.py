"""The agent without a worker Pod: on a machine that is no Kubernetes node, as the unit runtimes/systemd/iris-agent.service.

What a Pod would tell comes from options and from the machine. Tasks' cgroups are below a slice of systemd's own, not below
the unit: so they outlive the agent's restarts, and `systemctl set-property iris-tasks.slice` bounds them all.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from iris_operator.agent.config import AgentConfig
from iris_operator.api.machine import Machine
from iris_operator.api.names import AGENT_SECRETS_DIR, GPU_RESOURCE, worker_pod_name
from iris_runtimes.protocol import CgroupParent, Device, Mount, PodContext

TASKS_SLICE = "iris-tasks.slice"
_PLAIN_CGROUP = "/iris-tasks"
_MACHINE_ID = Path("/etc/machine-id")
_SYSTEMD = Path("/run/systemd/system")  # sd_booted(3)
# Made only to name workers: the same machine, slice and rank are the same worker after a restart.
_NAMES = uuid.UUID("5f0c6a5e-8f0e-4a0b-9a55-1d3b0c6f7a10")
_GPU_NODE = re.compile(r"^nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)$")


def as_in_a_pod(env: Mapping[str, str], machine_id: str) -> dict[str, str]:
    """The environment with what a worker Pod would have been told, as far as that isn't said."""
    slice_name, rank = env.get("IRIS_SLICE", ""), env.get("IRIS_RANK", "")
    found = {"IRIS_RANK": "0", **{name: value for name, value in env.items() if value}}
    if slice_name and "POD_NAME" not in found:
        found["POD_NAME"] = worker_pod_name(slice_name, int(rank) if rank.isdigit() else 0)
    if machine_id and "POD_UID" not in found:
        name = f"{machine_id}/{env.get('POD_NAMESPACE', '')}/{slice_name}/{found['IRIS_RANK']}"
        found["POD_UID"] = str(uuid.uuid5(_NAMES, name))
    return found


def machine_id() -> str:
    """This machine's; empty when it has none."""
    return _MACHINE_ID.read_text().strip() if _MACHINE_ID.is_file() else ""


def cgroup_parent(wanted: str, *, systemd: bool) -> CgroupParent:
    """Where Tasks' cgroups go: a slice's name or a path; empty: what suits."""
    wanted = wanted or (TASKS_SLICE if systemd else _PLAIN_CGROUP)
    return CgroupParent(wanted, systemd=wanted.endswith(".slice"))


def gpu_devices(names: Iterable[str]) -> tuple[Device, ...]:
    """Of the names in /dev, NVIDIA's device nodes: all belong to Tasks, since there is no device plugin to share with."""
    return tuple(Device(f"/dev/{name}", f"/dev/{name}") for name in sorted(names) if _GPU_NODE.match(name))


def context(env: Mapping[str, str]) -> PodContext:
    """What the machine gives its agent."""
    parent = cgroup_parent(env.get("IRIS_CGROUP_PARENT", ""), systemd=_SYSTEMD.is_dir())
    devices = gpu_devices(one.name for one in Path("/dev").iterdir())
    return PodContext(parent, devices, dict(env), mounts=memory_for_secrets(Path("/proc/mounts").read_text()))


def machine(env: Mapping[str, str], config: AgentConfig, gpus: int) -> Machine:
    """What is said of this machine on the Lease. IRIS_CPU and IRIS_MEMORY: less than all there is."""
    capacity = {
        "cpu": env.get("IRIS_CPU") or str(os.cpu_count() or 1),
        "memory": env.get("IRIS_MEMORY") or str(memory_bytes(Path("/proc/meminfo").read_text())),
        **({GPU_RESOURCE: str(gpus)} if gpus else {}),
    }
    return Machine(
        node_name=config.node_name, address=config.host_ip, stream_port=config.stream_port, capacity=capacity
    )


def memory_bytes(meminfo: str) -> int:
    """All there is, by the text of /proc/meminfo."""
    line = next(one for one in meminfo.splitlines() if one.startswith("MemTotal:"))
    return int(line.split()[1]) * 1024


def memory_for_secrets(mounts: str) -> tuple[Mount, ...]:
    """The folder for Secrets' files, if what it lies in is memory. `mounts`: the text of /proc/mounts."""
    kinds = {fields[1]: fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    inside = [path for path in kinds if PurePosixPath(AGENT_SECRETS_DIR).is_relative_to(path)]
    in_memory = bool(inside) and kinds[max(inside, key=len)] == "tmpfs"
    return (Mount(AGENT_SECRETS_DIR, AGENT_SECRETS_DIR),) if in_memory else ()
