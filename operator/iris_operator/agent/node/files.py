"""The resolver files that a worker Pod has (ClusterFirstWithHostNet), for its Tasks: so that they find Services by name.

The agent's own are not on the node's file system; copies in the cache folder, a hostPath of the same name, are.
"""

from __future__ import annotations

from pathlib import Path

from iris_runtimes.protocol import Mount

_FILES = ("/etc/resolv.conf", "/etc/hosts")


def resolver_mounts(cache_dir: Path) -> tuple[Mount, ...]:
    """Copy the files, and the mounts that show the copies to a sandbox."""
    folder = cache_dir / "etc"
    folder.mkdir(parents=True, exist_ok=True)
    mounts = []
    for name in _FILES:
        source = Path(name)
        if source.is_file():
            target = folder / source.name
            # In place: a running sandbox has this very file mounted.
            target.write_bytes(source.read_bytes())
            mounts.append(Mount(str(target), name, read_only=True))
    return tuple(mounts)
