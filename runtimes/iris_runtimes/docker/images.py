"""Images of the Engine."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import aiohttp

from iris_runtimes.docker.container import MANAGED_LABEL, digest_of
from iris_runtimes.docker.engine import Engine, EngineError
from iris_runtimes.errors import ImageInUse, ImageNotFound, ImagePullFailed, ImageUnauthorized
from iris_runtimes.protocol import Credentials, Image, PullPolicy, PullProgress, StoredImage
from iris_runtimes.pull_words import meaning_of
from iris_runtimes.reference import normalize

OnProgress = Callable[[PullProgress], None]
STALL_SECONDS = 900.0


class Images:
    """The Engine has one set of images for all its users: ours are those that were pulled here or that our sandboxes have."""

    def __init__(self, engine: Engine, default_registry: str) -> None:
        self.default_registry = default_registry
        self._engine = engine
        self._pulls: dict[str, asyncio.Lock] = {}
        self._used: dict[str, datetime] = {}

    def full(self, reference: str) -> str:
        """With registry and tag."""
        return normalize(reference, self.default_registry)

    async def pull(
        self,
        reference: str,
        policy: PullPolicy,
        credentials: Sequence[Credentials],
        on_progress: OnProgress | None,
    ) -> Image:
        """See protocol.Runtime.pull."""
        name = self.full(reference)
        async with self._pulls.setdefault(name, asyncio.Lock()):
            if policy == "Always" or await self._digest(name) is None:
                if policy == "Never":
                    raise ImageNotFound(f"image {reference} is not on the node, and imagePullPolicy is Never")
                await self._pull_with_any(name, reference, credentials, on_progress)
            digest = await self._digest(name)
        if digest is None:
            raise ImagePullFailed(f"image {reference} vanished right after its pull")
        self._used[name] = datetime.now(UTC)
        return Image(reference, digest)

    async def present(self, reference: str) -> Image | None:
        """See protocol.Runtime.present."""
        digest = await self._digest(self.full(reference))
        return None if digest is None else Image(reference, digest)

    async def all(self) -> list[StoredImage]:
        """Those that are ours."""
        held = await self._held()
        found = []
        for name in sorted({*self._used, *held}):
            try:
                shown = await self._engine.json("GET", f"/images/{quote(name, safe='')}/json")
            except EngineError as error:
                if error.status == 404:
                    continue
                raise
            last = self._used.get(name, datetime.min.replace(tzinfo=UTC))
            found.append(StoredImage(name, digest_of(shown, _repository(name)), int(shown["Size"]), last, name in held))
        return found

    async def remove(self, reference: str, unused_since: datetime | None) -> None:
        """See protocol.Runtime.remove_image."""
        name = self.full(reference)
        async with self._pulls.setdefault(name, asyncio.Lock()):
            if name in await self._held():
                raise ImageInUse(f"image {reference} is not removed: a sandbox stands on it")
            if unused_since is not None and (at := self._used.get(name)) is not None and at > unused_since:
                raise ImageInUse(f"image {reference} is not removed: it was used at {at:%Y-%m-%dT%H:%M:%SZ}")
            try:
                await self._engine.json("DELETE", f"/images/{quote(name, safe='')}")
            except EngineError as error:
                if error.status == 409:  # another user's container
                    raise ImageInUse(f"image {reference} is not removed: {error.message}") from error
                if error.status != 404:
                    raise
            self._used.pop(name, None)

    async def own_command(self, name: str) -> tuple[list[str], list[str]]:
        """Entrypoint and cmd of an image on the node. EngineError when it is not there."""
        found = (await self._engine.json("GET", f"/images/{quote(name, safe='')}/json")).get("Config") or {}
        return list(found.get("Entrypoint") or ()), list(found.get("Cmd") or ())

    async def _held(self) -> set[str]:
        filters = json.dumps({"label": [f"{MANAGED_LABEL}=true"]})
        listed = await self._engine.json("GET", "/containers/json", params={"all": "1", "filters": filters})
        return {str(one["Image"]) for one in listed}

    async def _digest(self, name: str) -> str | None:
        try:
            found = await self._engine.json("GET", f"/images/{quote(name, safe='')}/json")
        except EngineError as error:
            if error.status == 404:
                return None
            raise
        return digest_of(found, _repository(name))

    async def _pull_with_any(
        self, name: str, reference: str, credentials: Sequence[Credentials], on_progress: OnProgress | None
    ) -> None:
        attempts: list[Credentials | None] = [*credentials] or [None]
        for left, one in enumerate(attempts, 1 - len(attempts)):
            try:
                await self._pull_once(name, one, on_progress)
                return
            except EngineError as error:
                failure = meaning_of(reference, error.message, with_secret=one is not None)
                if left == 0 or not isinstance(failure, ImageUnauthorized):
                    raise failure from error
            except TimeoutError as error:
                words = f"image {reference}: the registry has sent nothing for {STALL_SECONDS:.0f} s"
                raise ImagePullFailed(words) from error

    async def _pull_once(self, name: str, credentials: Credentials | None, on_progress: OnProgress | None) -> None:
        headers = {} if credentials is None else {"X-Registry-Auth": registry_auth(credentials, name)}
        blobs: dict[str, tuple[int, int]] = {}
        async with self._engine.stream("POST", "/images/create", {"fromImage": name}, headers) as reader:
            async for line in _lines(reader):
                if "error" in line:
                    raise EngineError(500, str((line.get("errorDetail") or {}).get("message") or line["error"]))
                detail = line.get("progressDetail") or {}
                if line.get("status") == "Downloading" and detail.get("total"):
                    blobs[line["id"]] = (int(detail["current"]), int(detail["total"]))
                elif line.get("status") in ("Download complete", "Pull complete") and line.get("id") in blobs:
                    total = blobs[line["id"]][1]
                    blobs[line["id"]] = (total, total)
                else:
                    continue
                if on_progress is not None:
                    on_progress(PullProgress(sum(a for a, _ in blobs.values()), sum(b for _, b in blobs.values())))


async def _lines(reader: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    while True:
        async with asyncio.timeout(STALL_SECONDS):
            line = await reader.readline()
        if not line:
            return
        if line.strip():
            yield json.loads(line)


def registry_auth(credentials: Credentials, name: str) -> str:
    """Value of X-Registry-Auth: base64url of an AuthConfig."""
    body = {
        "username": credentials.username,
        "password": credentials.password,
        "serveraddress": name.partition("/")[0],
    }
    return base64.urlsafe_b64encode(json.dumps(body).encode()).decode()


def _repository(name: str) -> str:
    """Without tag and digest."""
    name = name.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
