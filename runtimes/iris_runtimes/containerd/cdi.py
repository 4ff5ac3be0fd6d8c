"""Devices by the Container Device Interface (specification 1.1): what the vendors' files say of them. Reads files, nothing more.

A file names one kind of device and lists the edits that each makes to a container's spec; cdi_edits.py makes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iris_runtimes.errors import InvalidSpec, NodeFault

# A later folder's device replaces an earlier one's of the same name.
CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*=[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_SUFFIXES = {".json", ".yaml", ".yml"}

Edits = Mapping[str, Any]


@dataclass(frozen=True)
class CdiFile:
    """One file's content: the kind, the edits that any of its devices brings, and those of each device by its name."""

    path: Path
    kind: str
    common: Edits
    devices: Mapping[str, Edits]


class CdiRegistry:
    """The files in some folders; read when first asked for, and again when they have changed."""

    def __init__(self, folders: Sequence[Path] = CDI_FOLDERS) -> None:
        self._folders = folders
        self._read: dict[Path, tuple[tuple[int, int], CdiFile | str]] = {}

    def of_kind(self, kind: str) -> Mapping[str, Edits]:
        """What each device of a kind brings, by its full name. Blocks on the disk, as `edits` does."""
        files = [file for _, file in self._files() if isinstance(file, CdiFile) and file.kind == kind]
        return {f"{kind}={name}": edits for file in files for name, edits in file.devices.items()}

    def edits(self, names: Sequence[str]) -> list[Edits]:
        """The edits of the named devices, in order; a file's common ones once, before its first device's.

        InvalidSpec for what is no device's name; NodeFault when the node has no such device, or has it twice.
        """
        found: list[Edits] = []
        seen: set[Path] = set()
        for name in names:
            file = self._find(name)
            if file.path not in seen:
                seen.add(file.path)
                found.append(file.common)
            found.append(file.devices[name.partition("=")[2]])
        return found

    def _find(self, name: str) -> CdiFile:
        if not _NAME.fullmatch(name):
            raise InvalidSpec(f"{name!r} is no CDI device: write vendor.com/class=name")
        broken: list[str] = []
        candidates: dict[int, list[CdiFile]] = {}
        for priority, file in self._files():
            if isinstance(file, str):
                broken.append(file)
            elif name in _full_names(file):
                candidates.setdefault(priority, []).append(file)
        if not candidates:
            why = f" (unreadable: {'; '.join(broken)})" if broken else ""
            raise NodeFault(f"no CDI file of this node describes the device {name}{why}")
        first, *others = candidates[max(candidates)]
        if others:
            raise NodeFault(f"CDI device {name} is described twice: in {first.path} and {others[0].path}")
        return first

    def _files(self) -> Iterator[tuple[int, CdiFile | str]]:
        """Priority and content of each file; what is wrong with one that can't be read."""
        for priority, folder in enumerate(self._folders):
            try:
                paths = sorted(one for one in folder.iterdir() if one.suffix in _SUFFIXES)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for path in paths:
                yield priority, self._file(path)

    def _file(self, path: Path) -> CdiFile | str:
        try:
            facts = path.stat()
            stamp = (facts.st_mtime_ns, facts.st_size)
            known = self._read.get(path)
            if known is None or known[0] != stamp:
                self._read[path] = known = (stamp, _parsed(path))
        except OSError as error:
            return f"{path}: {error.strerror}"
        return known[1]


def _full_names(file: CdiFile) -> set[str]:
    return {f"{file.kind}={name}" for name in file.devices}


def _parsed(path: Path) -> CdiFile | str:
    try:
        return parse_file(path, _load(path))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{path}: {' '.join(str(error).split())}"


def _load(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    import yaml  # most nodes have no such file, and yaml is large

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def parse_file(path: Path, body: Mapping[str, Any]) -> CdiFile:
    """A file's content, checked as far as we use it. Raises ValueError, KeyError, TypeError or AttributeError."""
    kind = body["kind"]
    version = str(body["cdiVersion"]).split(".")
    if int(version[0]) > 1:
        raise ValueError(f"CDI version {body['cdiVersion']} is newer than what is understood here, 1")
    devices = {str(one["name"]): dict(one["containerEdits"]) for one in body["devices"]}
    return CdiFile(path, str(kind), dict(body.get("containerEdits") or {}), devices)
