"""Which programs there are, read from catalogue.yaml."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Release:
    """An upstream download for this machine: the program itself, or an archive with it as `member`."""

    url: str
    sha256: str
    member: str = ""


@dataclass(frozen=True)
class Binary:
    """One program; `module` names a folder of gomod/ whose go.mod pins it, empty for `go install package@version`."""

    name: str
    version: str
    package: str
    module: str = ""
    release: Release | None = None

    @property
    def key(self) -> str:
        """Changes with anything that changes the program; names it in the store."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.name}-{self.version}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Catalogue:
    """All programs, and the folder that holds their Go modules."""

    binaries: tuple[Binary, ...]
    modules: Path

    @property
    def key(self) -> str:
        """Names the folder of the complete set, as `kubernetes-v1.36.3-1a2b3c4d`."""
        digest = hashlib.sha256("".join(each.key for each in self.binaries).encode())
        for path in sorted(self.modules.glob("*/go.*")):
            digest.update(path.read_bytes())
        main = next((each.version for each in self.binaries if each.name == "kube-apiserver"), "none")
        return f"kubernetes-{main}-{digest.hexdigest()[:8]}"


def architecture() -> str:
    """This machine's, as Go names it; the kernel's name where there is no release."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def load(path: Path = HERE / "catalogue.yaml", modules: Path = HERE / "gomod", arch: str = "") -> Catalogue:
    """The catalogue of this package, or another one for a test; for this machine, or another architecture."""
    entries: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())
    arch = arch or architecture()
    return Catalogue(tuple(_binary(name, entry, arch) for name, entry in entries.items()), modules)


def _binary(name: str, entry: dict[str, Any], arch: str) -> Binary:
    return Binary(
        name=name,
        version=str(entry["version"]),
        package=str(entry["package"]),
        module=str(entry.get("module", "")),
        release=_release(entry.get("release", {}), arch),
    )


def _release(entry: dict[str, Any], arch: str) -> Release | None:
    """None where it has no checksum for the architecture."""
    checksum = entry.get("sha256", {}).get(arch)
    if checksum is None:
        return None
    url, member = (str(entry.get(key, "")).replace("{arch}", arch) for key in ("url", "member"))
    return Release(url, str(checksum), member)
