"""Where crane, registry and helm are."""

from __future__ import annotations

import shutil
from pathlib import Path

from iris_devcluster.binaries.locate import binaries_folder
from iris_devcluster.errors import DevclusterError


def program(name: str) -> Path:
    """The cluster's own copy, else one on PATH; raises DevclusterError."""
    try:
        own = binaries_folder() / name
    except DevclusterError:
        own = Path(name)
    if own.is_absolute() and own.exists():
        return own
    found = shutil.which(name)
    if found is None:
        raise DevclusterError(f"{name} is not here yet; run: iris-devcluster setup")
    return Path(found)
