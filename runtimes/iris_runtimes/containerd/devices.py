"""Devices of the node, as the kernel has them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import Device

_DEV = Path("/dev")


@dataclass(frozen=True)
class DeviceNode:
    """A device with what the kernel says of it."""

    device: Device
    kind: str
    major: int
    minor: int

    def as_oci(self) -> dict[str, Any]:
        """An item of linux.devices."""
        path = self.device.container_path
        return {"path": path, "type": self.kind, "major": self.major, "minor": self.minor, "fileMode": 0o666}


def look_at_device(device: Device, node_dev: Path = _DEV) -> DeviceNode:
    """Type and numbers of a host device. NodeFault when it is none. `node_dev`: where the node's /dev is seen from here."""
    path = Path(device.host_path)
    try:
        found = (node_dev / path.relative_to(_DEV) if path.is_relative_to(_DEV) else path).stat()
    except OSError as error:
        raise NodeFault(f"device {device.host_path}: {error.strerror}") from error
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b" if stat.S_ISBLK(found.st_mode) else ""
    if not kind:
        raise NodeFault(f"{device.host_path} is not a device")
    return DeviceNode(device, kind, os.major(found.st_rdev), os.minor(found.st_rdev))
