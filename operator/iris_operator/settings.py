"""What one operator process is told at its start. All else comes from the IrisCluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from iris_operator.api.names import CONTROLLER_PORT


@dataclass(frozen=True)
class ProcessSettings:
    """Command line and environment of `iris-operator run`."""

    namespaces: tuple[str, ...]
    cluster_file: Path | None
    identity: str
    lease_namespace: str
    port: int = CONTROLLER_PORT
    kubeconfig: str | None = None
