"""Build hook: generates gRPC stubs beside every .proto of the source tree, for wheels and editable installs alike."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def generate(root: Path) -> list[Path]:
    """Compile each .proto under the source roots into its own folder; returns the .proto files compiled."""
    from grpc_tools import protoc

    well_known = str(resources.files("grpc_tools") / "_proto")
    done: list[Path] = []
    for source_root in (root / "operator", root / "runtimes"):
        for proto in sorted(source_root.rglob("*.proto")):
            args = [
                "protoc",
                f"-I{source_root}",
                f"-I{well_known}",
                f"--python_out={source_root}",
                f"--pyi_out={source_root}",
                f"--grpc_python_out={source_root}",
                str(proto),
            ]
            if protoc.main(args) != 0:
                raise RuntimeError(f"protoc failed on {proto}")
            done.append(proto)
    return done


class ProtoBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the files of a build are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate(Path(self.root))
