"""What this machine is like, as far as a node on it has to know."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from iris_devcluster import command

# systemd-resolved's own file lists the servers behind its stub, which no other network namespace reaches.
_RESOLV_CONFS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))

_CAP_SYS_RESOURCE = 24


def nameservers(candidates: tuple[Path, ...] = _RESOLV_CONFS) -> list[str]:
    """IPv4 name servers reachable from another network namespace; empty when there are none."""
    for path in candidates:
        if path.exists():
            found = _parse(path.read_text())
            if found:
                return found
    return []


def _parse(text: str) -> list[str]:
    words = [line.split() for line in text.splitlines() if line.startswith("nameserver")]
    addresses = [ipaddress.ip_address(parts[1]) for parts in words if len(parts) > 1 and "%" not in parts[1]]
    return [str(address) for address in addresses if address.version == 4 and not address.is_loopback]


def snapshotter_for(directory: Path) -> str:
    """overlayfs, except where the directory is itself on an overlay, which the kernel won't stack upon."""
    kind = command.run(["stat", "--file-system", "--format=%T", str(directory)]).strip()
    return "native" if kind == "overlayfs" else "overlayfs"


def may_lower_oom_score(status: str | None = None) -> bool:
    """Whether this process has CAP_SYS_RESOURCE; root in a container or a small VM may lack it."""
    text = Path("/proc/self/status").read_text() if status is None else status
    effective = next(line.split()[1] for line in text.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_RESOURCE & 1)


def load_kernel_modules() -> None:
    """Overlay mounts, and iptables on bridged packets, where the kernel has them as modules not loaded yet."""
    lacking = [] if "overlay" in Path("/proc/filesystems").read_text() else ["overlay"]
    if not Path("/proc/sys/net/bridge").exists():
        lacking.append("br_netfilter")
    for name in lacking:
        command.run(["modprobe", name])


def raise_inotify_limits() -> None:
    """Kubelets and container runtimes watch many files; the kernel's default of 128 watchers serves about four."""
    for name, least in (("max_user_instances", 8192), ("max_user_watches", 524288)):
        path = Path("/proc/sys/fs/inotify") / name
        if int(path.read_text()) < least:
            path.write_text(str(least))
