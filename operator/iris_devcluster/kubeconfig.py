"""kubeconfig files with everything inside, so that they work from any directory and any mount namespace."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from iris_devcluster.pki import Pair


def render(cluster: str, server: str, authority: Path, client: Pair) -> str:
    """kubeconfig text (JSON is YAML) for one user of one cluster."""
    user = {"client-certificate-data": _encoded(client.certificate), "client-key-data": _encoded(client.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}
        ],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    return json.dumps(config, indent=2) + "\n"


def write(path: Path, text: str) -> None:
    """Private to the owner, and whole at any moment."""
    partial = path.with_name(f".{path.name}.part")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
