"""Debian packages that the cluster needs beside its own programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from iris_devcluster.errors import DevclusterError
from iris_devcluster.node.pause import BUSYBOX, is_static
from iris_devcluster.progress import Progress, Step

_PROGRAMS = {
    "conntrack": "conntrack",
    "ip": "iproute2",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
}
"""Program -> Debian package."""

CNI_BRIDGE = Path("/usr/lib/cni/bridge")
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def missing_packages() -> list[str]:
    """Names of packages to install; looks at the programs, so that other ways of installing them count too."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    lacking = {package for program, package in _PROGRAMS.items() if not shutil.which(program, path=path)}
    if not CNI_BRIDGE.exists():
        lacking.add("containernetworking-plugins")
    if not is_static(BUSYBOX):
        lacking.add("busybox-static")
    return sorted(lacking)


def ensure_packages(progress: Progress) -> None:
    """Install what is missing with apt-get; raises DevclusterError where that is not possible."""
    names = missing_packages()
    if not names:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise DevclusterError(
            f"missing packages: {' '.join(names)}; install them, as root: apt-get install {' '.join(names)}"
        )
    with progress.step(f"Packages {' '.join(names)}") as step:
        _apt(["update"], step)
        _apt(["install", "--yes", "--no-install-recommends", *names], step)


def _apt(arguments: list[str], step: Step) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    tail: list[str] = []
    with subprocess.Popen(
        ["apt-get", *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            tail = [*tail[-9:], line.rstrip()]
            step.update(line.strip()[:80])
    if running.returncode != 0:
        raise DevclusterError(f"apt-get {arguments[0]} failed:\n  " + "\n  ".join(tail))
