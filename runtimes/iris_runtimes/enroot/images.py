"""Images as enroot has them: a squashed file each, imported from a registry, with a note of its name beside it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from iris_runtimes.enroot.limits import import_uri
from iris_runtimes.enroot.program import Program
from iris_runtimes.errors import ImageNotFound, ImageUnauthorized, RuntimeFault
from iris_runtimes.protocol import Credentials, Image, PullPolicy, StoredImage
from iris_runtimes.pull_words import meaning_of
from iris_runtimes.reference import normalize


class Images:
    """Below one folder. An image's digest is its file's: enroot does not tell the registry's."""

    def __init__(self, program: Program, folder: Path, default_registry: str) -> None:
        self._program = program
        self._folder = folder
        self._default_registry = default_registry
        self._pulls: dict[str, asyncio.Lock] = {}

    def full(self, reference: str) -> str:
        """With registry and tag."""
        return normalize(reference, self._default_registry)

    def file(self, name: str) -> Path:
        """Where the image of that full name is, or would be."""
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.sqsh"

    def digest(self, name: str) -> str | None:
        """None when it is not here."""
        with suppress(OSError):
            return str(json.loads(self._note(name).read_text())["digest"])
        return None

    async def pull(self, reference: str, policy: PullPolicy, credentials: Sequence[Credentials]) -> Image:
        """See protocol.Runtime.pull; enroot tells no progress."""
        name = self.full(reference)
        async with self._pulls.setdefault(name, asyncio.Lock()):
            digest = self.digest(name)
            if policy == "Always" or digest is None:
                if policy == "Never":
                    raise ImageNotFound(f"image {reference} is not on the node, and imagePullPolicy is Never")
                await self._import(name, reference, credentials)
                digest = self.digest(name)
            os.utime(self._note(name))
        assert digest is not None
        return Image(reference, digest)

    def stored(self, in_use: set[str]) -> list[StoredImage]:
        """All of them."""
        found = []
        for note in sorted(self._folder.glob("*.json")):
            body = json.loads(note.read_text())
            used = datetime.fromtimestamp(note.stat().st_mtime, UTC)
            size = note.with_suffix(".sqsh").stat().st_size
            found.append(StoredImage(body["name"], body["digest"], size, used, body["name"] in in_use))
        return found

    def remove(self, name: str) -> None:
        """Gone already is success."""
        self._note(name).unlink(missing_ok=True)
        self.file(name).unlink(missing_ok=True)

    def _note(self, name: str) -> Path:
        return self.file(name).with_suffix(".json")

    async def _import(self, name: str, reference: str, credentials: Sequence[Credentials]) -> None:
        attempts: list[Credentials | None] = [*credentials] or [None]
        for left, one in enumerate(attempts, 1 - len(attempts)):
            try:
                await self._import_once(name, reference, one)
                return
            except RuntimeFault as failure:
                if left == 0 or not isinstance(failure, ImageUnauthorized):
                    raise

    async def _import_once(self, name: str, reference: str, one: Credentials | None) -> None:
        uri = import_uri(name, one.username if one else "")
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            env = {}
            if one is not None:
                env["ENROOT_CONFIG_PATH"] = scratch
                machine = name.partition("/")[0].partition(":")[0]
                secret = Path(scratch) / ".credentials"
                secret.touch(0o600)
                secret.write_text(f"machine {machine} login {one.username} password {one.password}\n")
            half = Path(scratch) / "image.sqsh"
            done = await self._program.run("import", "--output", str(half), uri, env=env)
            if done.code != 0 or not half.exists():
                raise meaning_of(reference, done.words, with_secret=one is not None)
            digest = await asyncio.to_thread(_digest_of, half)
            half.replace(self.file(name))
        self._note(name).write_text(json.dumps({"name": name, "digest": digest}))


def _digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
