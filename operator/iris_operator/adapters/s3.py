"""S3-compatible object storage: read and write one object, signed with AWS Signature Version 4 (https://docs.aws.amazon.com
/AmazonS3/latest/API/sig-v4-header-based-auth.html). A page of code, where an SDK would cost 40 MB on every node.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
BUCKET = "{bucket}"
MOST_BYTES = 5 * 2**30  # that one PUT takes
_ALGORITHM = "AWS4-HMAC-SHA256"
# They take the bucket in the host's name only; others take it in the path.
_BY_HOST = re.compile(r"(^|\.)(cwobject\.com|cwlota\.com|amazonaws\.com)$")
_CHUNK = 1024 * 1024
_ERROR_BYTES = 4096
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)


@dataclass(frozen=True)
class Keys:
    """Who asks."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True)
class Bucket:
    """`endpoint`: URL of the service, with the bucket in its path, or where it says {bucket}; empty: AWS', by region."""

    endpoint: str
    region: str
    name: str

    def url(self, key: str) -> str:
        """Of an object."""
        path = quote(key, safe="/-._~")
        endpoint = (self.endpoint or f"https://s3.{self.region}.amazonaws.com").rstrip("/")
        if BUCKET in endpoint:
            return f"{endpoint.replace(BUCKET, self.name)}/{path}"
        parts = urlsplit(endpoint)
        if _BY_HOST.search(parts.hostname or ""):
            return f"{parts.scheme}://{self.name}.{parts.netloc}{parts.path}/{path}"
        return f"{endpoint}/{self.name}/{path}"


class S3Error(Exception):
    """The storage refused, or was not reached. `status`: HTTP's, 0 when not reached. `again`: may go well later."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code

    @property
    def again(self) -> bool:
        """Whether it may go well another time as it is."""
        return self.status in (0, 408, 429) or self.status >= 500


def signed(
    method: str,
    url: str,
    region: str,
    keys: Keys | None,
    sha256: str,
    now: datetime,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Headers of a request. `sha256`: of its body, in hex. Without keys it is anonymous."""
    headers = {name.lower(): value for name, value in (more or {}).items()}
    if keys is None:
        return headers
    parts, moment = urlsplit(url), now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers |= {"host": parts.netloc, "x-amz-content-sha256": sha256, "x-amz-date": moment}
    names = sorted(headers)
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
    canonical = "\n".join([method, parts.path or "/", parts.query, *lines, "", ";".join(names), sha256])
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={keys.access_key_id}/{scope}"
    headers["authorization"] = f"{_ALGORITHM} {credential},SignedHeaders={';'.join(names)},Signature={key.hex()}"
    return headers


@contextlib.asynccontextmanager
async def get_object(
    session: aiohttp.ClientSession, bucket: Bucket, key: str, keys: Keys | None, now: datetime
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer, its body not read yet. S3Error."""
    url = bucket.url(key)
    async with _asked(session, "GET", url, signed("GET", url, bucket.region, keys, EMPTY_SHA256, now), None) as answer:
        yield answer


async def put_file(
    session: aiohttp.ClientSession,
    bucket: Bucket,
    key: str,
    keys: Keys | None,
    path: Path,
    now: datetime,
    *,
    begin: int = 0,
    head: bytes = b"",
) -> str:
    """Write `head` and what a file has from `begin` on as an object of at most 5 GiB; its URL. S3Error, OSError.

    The file must not change meanwhile.
    """
    with path.open("rb") as file:
        digest = await asyncio.to_thread(_sha256, file, begin, head)
        size = len(head) + file.seek(0, 2) - begin
        url = bucket.url(key)
        more = {"content-length": str(size), "content-type": "text/plain; charset=utf-8"}
        headers = signed("PUT", url, bucket.region, keys, digest, now, more)
        async with _asked(session, "PUT", url, headers, _chunks(file, begin, head)):
            return url


@contextlib.asynccontextmanager
async def _asked(
    session: aiohttp.ClientSession, method: str, url: str, headers: Mapping[str, str], body: AsyncIterator[bytes] | None
) -> AsyncIterator[aiohttp.ClientResponse]:
    try:
        # As it was signed: yarl would write some characters otherwise.
        async with session.request(
            method, URL(url, encoded=True), headers=headers, data=body, timeout=_TIMEOUT, allow_redirects=False
        ) as answer:
            if answer.status >= 300:
                raise _refused(
                    method, url, answer.status, (await answer.content.read(_ERROR_BYTES)).decode(errors="replace")
                )
            yield answer
    except (aiohttp.ClientError, TimeoutError) as error:
        raise S3Error(f"{method} {url}: {str(error) or type(error).__name__}") from error


def _refused(method: str, url: str, status: int, text: str) -> S3Error:
    said = {name: found[1] for name in ("Code", "Message") if (found := re.search(f"<{name}>([^<]*)</{name}>", text))}
    why = ": ".join(said.values()) or text.strip()[:200]
    return S3Error(f"{method} {url}: {status} {why}".rstrip(), status, said.get("Code", ""))


def _pieces(file: BinaryIO, begin: int, head: bytes) -> Iterator[bytes]:
    if head:
        yield head
    file.seek(begin)
    while chunk := file.read(_CHUNK):
        yield chunk


def _sha256(file: BinaryIO, begin: int, head: bytes) -> str:
    found = hashlib.sha256()
    for piece in _pieces(file, begin, head):
        found.update(piece)
    return found.hexdigest()


async def _chunks(file: BinaryIO, begin: int, head: bytes) -> AsyncIterator[bytes]:
    pieces = _pieces(file, begin, head)
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece
