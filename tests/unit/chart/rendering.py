"""The chart, rendered by the real helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from iris_devcluster.images.programs import program

CHART = Path(__file__).parents[3] / "charts/iris"


class Rendered:
    """The objects of one rendering."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = objects

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Every object of a kind, in order."""
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """The object of that name; fails the test when there is not exactly one."""
        (found,) = [
            each
            for each in self.all(kind)
            if each["metadata"]["name"] == name and (not namespace or each["metadata"].get("namespace") == namespace)
        ]
        return found


class Chart:
    """`helm template` with given values."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def render(self, values: Mapping[str, Any] | None = None, namespace: str = "iris-system") -> Rendered:
        done = self.run(values, namespace)
        assert done.returncode == 0, done.stderr
        return Rendered([each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each])  # 8,000 lines of CRDs

    def run(
        self, values: Mapping[str, Any] | None = None, namespace: str = "iris-system"
    ) -> subprocess.CompletedProcess[str]:
        file = self._scratch / "values.yaml"
        file.write_text(json.dumps(values or {}))
        argv = [str(program("helm")), "template", "iris", str(CHART), "-n", namespace, "-f", str(file)]
        # This helm does not know which Kubernetes it was made for.
        return subprocess.run([*argv, "--kube-version", "v1.31.0"], capture_output=True, text=True, check=False)
