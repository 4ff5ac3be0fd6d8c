"""A small asynchronous client of the API server, for the simulator's own process: JSON in, JSON out."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

from iris_devcluster.errors import DevclusterError

Body = Mapping[str, Any]

_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
_WATCH_SECONDS = 300
_CLOSE_SECONDS = 0.05
_WATCH_SILENCE_SECONDS = 90  # bookmarks come about once a minute when anything changes; a stalled watch is silent
MANAGER = "coreweave-simulator"


class KubeError(DevclusterError):
    """The API server refused (`status` is the HTTP status) or did not answer (0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Connection:
    """Where the API server is, and who we are."""

    server: str
    context: ssl.SSLContext | None
    token: str = ""


def read_kubeconfig(path: Path) -> Connection:
    """The current context; certificates and tokens inside the file or beside it, no exec plugins."""
    try:
        config = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise DevclusterError(f"no kubeconfig at {path}; start the cluster with: iris-devcluster up") from None
    current = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], current["cluster"])["cluster"]
    user = _named(config["users"], current["user"])["user"]
    server = str(cluster["server"]).rstrip("/")
    context = _ssl_context(cluster, user, path.parent) if server.startswith("https") else None
    return Connection(server, context, str(user.get("token", "")))


def _named(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if row["name"] == name)


def _ssl_context(cluster: Body, user: Body, folder: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate", folder), _content(user, "client-key", folder)
    if certificate and key:
        # The ssl module takes a client's pair from files only.
        with tempfile.NamedTemporaryFile(prefix="iris-") as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _content(row: Body, key: str, folder: Path) -> bytes:
    if f"{key}-data" in row:
        return base64.b64decode(row[f"{key}-data"])
    return (folder / row[key]).read_bytes() if key in row else b""


class KubeClient:
    """Use as an async context manager; calls may run side by side. Paths are the API's own, from /api or /apis on."""

    def __init__(self, connection: Connection) -> None:
        headers = {"User-Agent": MANAGER, "Accept": "application/json"}
        if connection.token:
            headers["Authorization"] = f"Bearer {connection.token}"
        self._session = aiohttp.ClientSession(
            connection.server,
            connector=aiohttp.TCPConnector(ssl=connection.context or True, limit=20),
            headers=headers,
            timeout=_TIMEOUT,
            read_bufsize=2**20,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        # TLS transports end some turns of the loop after their session: aiohttp's documentation asks for a pause.
        await asyncio.sleep(_CLOSE_SECONDS)

    async def request(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The decoded answer; KubeError on any refusal, and with status 0 on no answer."""
        data = None if body is None else json.dumps(body)
        try:
            async with self._session.request(
                method, path, data=data, params=params, headers={"Content-Type": content_type}
            ) as answer:
                raw = await answer.read()
                if answer.status >= 400:
                    raise KubeError(answer.status, f"{method} {path}: {answer.status} {_message(raw)}")
                found: dict[str, Any] = json.loads(raw)
                return found
        except (aiohttp.ClientError, TimeoutError) as error:
            raise KubeError(0, f"the API server does not answer: {error or type(error).__name__}") from error

    async def get(self, path: str) -> dict[str, Any] | None:
        """One object, None when there is none."""
        try:
            return await self.request("GET", path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, path: str, body: Body) -> dict[str, Any]:
        return await self.request("POST", path, body)

    async def put(self, path: str, body: Body) -> dict[str, Any]:
        """Replace; 409 when the body's resourceVersion is not the present one."""
        return await self.request("PUT", path, body)

    async def merge(self, path: str, patch: Body) -> dict[str, Any]:
        return await self.request("PATCH", path, patch, content_type=_MERGE)

    async def apply(self, path: str, body: Body) -> dict[str, Any]:
        """Server-side apply of the whole object at its path."""
        params = {"fieldManager": MANAGER, "force": "true"}
        return await self.request("PATCH", path, body, content_type=_APPLY, params=params)

    async def delete(self, path: str) -> None:
        """Fine when there is none."""
        try:
            await self.request("DELETE", path)
        except KubeError as error:
            if error.status != 404:
                raise

    async def watch(self, path: str, resource_version: str, fields: str = "") -> AsyncIterator[dict[str, Any]]:
        """Events {type, object} until the server ends the watch; KubeError(410) when the version is too old."""
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_SECONDS),
            **({"fieldSelector": fields} if fields else {}),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_WATCH_SILENCE_SECONDS)
        try:
            async with self._session.get(path, params=params, timeout=timeout) as answer:
                if answer.status >= 400:
                    raise KubeError(answer.status, f"watch {path}: {answer.status} {_message(await answer.read())}")
                async for event in _events(answer.content):
                    yield event
        except TimeoutError:
            return  # silent for too long: whoever watches lists again, and lost nothing
        except aiohttp.ClientError as error:
            raise KubeError(0, f"the watch of {path} broke: {error or type(error).__name__}") from error


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    pending = b""
    async for chunk in content.iter_any():
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "ERROR":
                raise KubeError(event["object"].get("code", 500), str(event["object"].get("message", "")))
            yield event


def _message(raw: bytes) -> str:
    try:
        return str(json.loads(raw).get("message", ""))
    except ValueError:
        return raw[:200].decode(errors="replace")
