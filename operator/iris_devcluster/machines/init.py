"""Entry of a machine's processes: `python -m iris_devcluster.machines.init DIRECTORY`.

Leaves every namespace of the host and forks. The parent prints the child's host pid and ends. The child waits for a
line on its standard input, which says that its cable is plugged in, mounts its view of the file system and becomes
the supervisor. When that line never comes (the caller died), it ends, and with it everything made so far.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from iris_devcluster import cgroups, linux
from iris_devcluster.machines import mounts
from iris_devcluster.machines.description import Description
from iris_devcluster.machines.supervisor import Supervisor

_NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWCGROUP
)


def main(directory: Path) -> None:
    """Become the machine described in `directory`."""
    description = Description.load(directory)
    hierarchies = cgroups.hierarchies()
    for hierarchy in hierarchies:
        cgroups.join(cgroups.create(hierarchy, description.cgroup), os.getpid())
    linux.unshare(_NAMESPACES)
    child = os.fork()
    if child:
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os._exit(0)
    os.setsid()
    if sys.stdin.readline() != "go\n":
        os._exit(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # standard output was the caller's pipe
    os.close(null)
    linux.set_hostname(description.hostname)
    mounts.assemble(hierarchies, description.binds, description.files)
    for key, value in description.sysctls.items():
        _set_sysctl(key, value)
    os.chdir("/")
    Supervisor(directory).run()
    os._exit(0)


def _set_sysctl(key: str, value: str) -> None:
    path = Path("/proc/sys") / key
    if path.exists():  # bridge/* is absent where br_netfilter is
        path.write_text(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
