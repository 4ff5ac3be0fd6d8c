"""Where the cluster's programs are."""

from __future__ import annotations

import os
from pathlib import Path

from iris_devcluster.errors import DevclusterError


def binaries_folder() -> Path:
    """IRIS_BIN_DIR when set, else the per-user cache; raises DevclusterError when that is not complete."""
    override = os.environ.get("IRIS_BIN_DIR")
    if override:
        return Path(override)
    raise DevclusterError("IRIS_BIN_DIR is not set")
