"""The image's own Python, run from its unpacked files on this host, whichever Python this host has."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster.errors import CommandFailedError, DevclusterError


@dataclass(frozen=True)
class Python:
    """Python `version` below `files`, which holds the base image's root file system."""

    files: Path
    version: str

    def run(self, arguments: Sequence[str], search: Sequence[Path] = ()) -> str:
        """Standard output of this Python with the arguments; raises CommandFailedError.

        Through the image's own dynamic loader, so that none of the host's libraries comes in; needs no root.
        """
        loaders = sorted(self.files.glob("usr/lib/*-linux-gnu/ld-linux-*"))
        if not loaders:
            raise DevclusterError(f"no dynamic loader below {self.files}; delete that folder and try again")
        loader = loaders[0]
        interpreter = self.files / "usr/bin" / f"python{self.version}"
        env = {
            "PYTHONHOME": str(self.files / "usr"),
            "PYTHONPATH": ":".join(map(str, search)),
            "PYTHONHASHSEED": "0",  # the order of a set constant is part of the compiled file
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        argv = [str(loader), "--library-path", str(loader.parent), str(interpreter), *arguments]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise CommandFailedError(f"the image's Python failed with {done.returncode}: {said[-2000:]}")
        return done.stdout

    def compile(self, root: Path, folders: Sequence[str]) -> None:
        """Byte-compile these folders of the image whose files are below `root`.

        Hash-based and unchecked: such a file needs no source's time, so it is the same in every build, and Python
        loads it without looking at the source. In one process, for what it interned decides on bytes, too.
        """
        arguments = ["-S", "-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash"]
        strip = ["-s", str(root), "-p", "/"]
        self.run([*arguments, *strip, *(str(root / folder) for folder in folders)])
