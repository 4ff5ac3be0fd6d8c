"""Keys of an object as files, whole or not at all: written beside, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iris_operator.agent.inputs.model import InputFault
from iris_operator.agent.inputs.safe_paths import parts_of
from iris_operator.agent.inputs.wants import Objects, Want
from iris_operator.api.volume import KeyToPath

_FOLDER_MODE = 0o755


@dataclass(frozen=True)
class Owner:
    """Who the command runs as; None: root, or whom the image names, who reads by the mode's last digit."""

    user: int | None = None
    group: int | None = None


def chosen_files(
    objects: Objects, want: Want, items: Sequence[KeyToPath], volume: str, *, optional: bool
) -> dict[tuple[str, ...], bytes]:
    """Path's parts -> content. InputFault for what is absent and must not be, and for paths that leave or collide."""
    where = f"volume {volume}"
    data = objects.data(want, where, optional=optional)
    if not items:
        return {parts_of(key, where): value for key, value in (data or {}).items()}
    files: dict[tuple[str, ...], bytes] = {}
    for item in items:
        value = objects.value(want, item.key, where, optional=optional)
        parts = parts_of(item.path, where)
        if value is not None:
            files[parts] = value
    for path in files:
        if not path or any(path != other and other[: len(path)] == path for other in files):
            raise InputFault("InvalidPath", f"{where}: {'/'.join(path) or '.'!r} would be a file and a folder")
    return files


def write_files(target: Path, files: Mapping[tuple[str, ...], bytes], mode: int, owner: Owner) -> None:
    """A folder of just these files at `target`, in place of what is there. OSError when it can't."""
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    fresh.chmod(_FOLDER_MODE)
    for parts, content in files.items():
        folder = fresh
        for part in parts[:-1]:
            folder = folder / part
            folder.mkdir(exist_ok=True)
            folder.chmod(_FOLDER_MODE)
        _write(folder / parts[-1], content, mode, owner)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def _write(path: Path, content: bytes, mode: int, owner: Owner) -> None:
    # Its own mode last: before, nobody but us may look, and a mode without w must not be in our way.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        if owner.user not in (None, os.geteuid()) or owner.group not in (None, os.getegid()):
            os.fchown(
                file.fileno(), -1 if owner.user is None else owner.user, -1 if owner.group is None else owner.group
            )
        os.fchmod(file.fileno(), mode)
