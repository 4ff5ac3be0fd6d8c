"""Archives from the network: HTTP and S3. Who must act is told apart: what a person wrote, and what a network does."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from yarl import URL

from iris_operator.adapters.s3 import Bucket, Keys, S3Error, get_object
from iris_operator.agent.inputs.bundle_store import Sink
from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.api.volume import HttpSource, S3Source
from iris_operator.version import VERSION

_CHUNK = 2**20
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
# The digest is of what is stored: nothing on the way may unpack or pack it.
_HEADERS = {"User-Agent": f"iris-agent/{VERSION}", "Accept-Encoding": "identity"}


def shown(url: str) -> str:
    """A URL for messages: without password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def http_headers(secret: Mapping[str, bytes] | None, name: str) -> dict[str, str]:
    """Authorization by a Secret's keys: token, or username and password. InputFault when it has neither."""
    if secret is None:
        return {}
    token, user = _text(secret, "token", name), _text(secret, "username", name)
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user:
        pair = f"{user}:{_text(secret, 'password', name)}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    raise InputFault("BundleSecretInvalid", f"bundle: Secret {name} has neither token nor username and password")


def s3_keys(secret: Mapping[str, bytes] | None, name: str) -> Keys | None:
    """The access key of a Secret; None: anonymous. InputFault when it lacks a part."""
    if secret is None:
        return None
    keys = _text(secret, "accessKeyID", name), _text(secret, "secretAccessKey", name)
    if not all(keys):
        raise InputFault("BundleSecretInvalid", f"bundle: Secret {name} lacks accessKeyID or secretAccessKey")
    return Keys(*keys)


def new_session(connector: aiohttp.BaseConnector | None = None) -> aiohttp.ClientSession:
    """To fetch with; it is the caller's to close."""
    return aiohttp.ClientSession(
        connector=connector, headers=_HEADERS, auto_decompress=False, trust_env=True, read_bufsize=2 * _CHUNK
    )


async def fetch_http(
    session: aiohttp.ClientSession, source: HttpSource, headers: Mapping[str, str], sink: Sink
) -> None:
    """The archive into the sink. InputFault."""
    what = f"bundle {shown(source.url)}"
    try:
        async with session.get(URL(source.url), headers=headers, timeout=_TIMEOUT) as answer:
            if answer.status >= 300:
                raise _refused(what, answer.status, f"{answer.status} {answer.reason or ''}".rstrip())
            await _pour(answer, sink)
    except (aiohttp.InvalidURL, aiohttp.TooManyRedirects, aiohttp.NonHttpUrlClientError) as error:
        raise InputFault("BundleInvalid", f"{what}: {type(error).__name__}") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        # Not its own words: they may repeat the whole URL.
        raise _unreachable(what, _network_words(error)) from error
    except ValueError as error:  # a header or a URL that can't be sent
        raise InputFault("BundleInvalid", f"{what}: the URL or the Secret's value can't be sent") from error


async def fetch_s3(session: aiohttp.ClientSession, source: S3Source, keys: Keys | None, sink: Sink) -> None:
    """The archive into the sink. InputFault."""
    bucket = Bucket(source.endpoint, source.region, source.bucket)
    what = s3_words(source)
    try:
        async with get_object(session, bucket, source.key, keys, datetime.now(UTC)) as answer:
            await _pour(answer, sink)
    except S3Error as error:
        words = f"{error.status} {error.code}".rstrip() if error.status else _network_words(error.__cause__ or error)
        raise _refused(what, error.status, words) if error.status else _unreachable(what, words) from error
    except ValueError as error:
        raise InputFault("BundleInvalid", f"{what}: the endpoint or the Secret's value can't be sent") from error


def s3_words(source: S3Source) -> str:
    """What it is called in messages."""
    return f"bundle s3://{source.bucket}/{source.key}"


async def _pour(answer: aiohttp.ClientResponse, sink: Sink) -> None:
    sink.expect(answer.content_length or 0)
    async for block in answer.content.iter_chunked(_CHUNK):
        await asyncio.to_thread(sink.take, block)


def _refused(what: str, status: int, words: str) -> InputFault:
    if status in (404, 410):
        return InputFault("BundleNotFound", f"{what}: {words}")
    if status in (401, 403):
        return InputFault("BundleUnauthorized", f"{what}: {words}")
    if status in (408, 425, 429) or status >= 500:
        return _unreachable(what, words)
    return InputFault("BundleRefused", f"{what}: {words}")


def _unreachable(what: str, words: str) -> InputFault:
    return InputFault("BundleUnreachable", f"{what}: {words}", Whose.PLATFORM)


def _network_words(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"the connection broke ({type(error).__name__})"


def _text(secret: Mapping[str, bytes], key: str, name: str) -> str:
    try:
        return secret.get(key, b"").decode().strip()
    except UnicodeDecodeError:
        raise InputFault("BundleSecretInvalid", f"bundle: key {key} of Secret {name} is no text") from None
