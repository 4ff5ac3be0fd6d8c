"""The program `enroot`, and its folders."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_runtimes.errors import RuntimeUnavailable


@dataclass(frozen=True)
class Done:
    """How a call of it went; `words`: what it wrote, on one line."""

    code: int
    words: str


@dataclass(frozen=True)
class Program:
    """`data` is ENROOT_DATA_PATH: the sandboxes' root file systems, by name."""

    path: str
    data: Path

    def env(self) -> dict[str, str]:
        """Its environment."""
        return {**os.environ, "ENROOT_DATA_PATH": str(self.data)}

    async def run(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Call it to its end. RuntimeUnavailable when it is not there."""
        self.data.mkdir(parents=True, exist_ok=True)
        try:
            process = await asyncio.create_subprocess_exec(
                self.path, *words, env={**self.env(), **(env or {})}, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise RuntimeUnavailable(f"the program {self.path} can't be run: {error.strerror}") from error
        try:
            said, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return Done(process.returncode or 0, " ".join(said.decode(errors="replace").split()))


def find_command(root: Path, command: str, path: str) -> Path | None:
    """A command's file in a root file system; None when there is none. Absolute links stay within the root."""
    places = [command] if "/" in command else [f"{folder}/{command}" for folder in path.split(":") if folder]
    for place in places:
        found = _within(root, place)
        if found is not None and found.is_file():
            return found
    return None


def _within(root: Path, place: str, hops: int = 20) -> Path | None:
    at = root
    parts = [part for part in place.split("/") if part not in ("", ".")]
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = at.parent if at != root else root
            continue
        at = at / part
        if at.is_symlink():
            hops -= 1
            if hops == 0:
                return None
            target = str(at.readlink())
            at = root if target.startswith("/") else at.parent
            parts = [one for one in target.split("/") if one not in ("", ".")] + parts
    return at if at.exists() else None
