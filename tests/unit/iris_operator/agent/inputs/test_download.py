"""Archives from a server of the test's own, on a unix socket: what is sent, and what each refusal is."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from iris_operator.adapters.s3 import Keys
from iris_operator.agent.inputs.bundle_store import Sink
from iris_operator.agent.inputs.download import fetch_http, fetch_s3, http_headers, new_session, s3_keys, shown
from iris_operator.agent.inputs.model import Fetching, InputFault, Whose
from iris_operator.api.volume import HttpSource, S3Source

_CONTENT = bytes(range(256)) * 20_000  # 5 MB: some blocks
_SECRET = "hunter2"


class Server:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.status, self.text = 200, ""
        self.cut = False
        self.headers: dict[str, str] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.path == "/redirect":
            raise web.HTTPFound("/a.tar")
        if self.status != 200:
            return web.Response(status=self.status, text=self.text)
        if self.cut:
            answer = web.StreamResponse(headers={"Content-Length": str(len(_CONTENT))})
            await answer.prepare(request)
            await answer.write(_CONTENT[:1000])
            assert request.transport is not None
            request.transport.abort()
            return answer
        return web.Response(body=_CONTENT, headers=self.headers)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    found = Server()
    app = web.Application()
    app.router.add_get("/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    yield found
    await runner.cleanup()


@pytest.fixture
async def session(tmp_path: Path, server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with new_session(aiohttp.UnixConnector(str(tmp_path / "s"))) as made:
        yield made
    await asyncio.sleep(0)


class Taken:
    """A sink, and what came into it."""

    def __init__(self) -> None:
        self.file, self.told = io.BytesIO(), list[Fetching]()
        self.sink = Sink(self.file, "bundle b", self.told.append)


def _http(path: str = "/a.tar") -> HttpSource:
    return HttpSource(url=f"http://user:{_SECRET}@h.test{path}?token={_SECRET}")


async def test_streams_hashes_and_tells(session: aiohttp.ClientSession) -> None:
    taken = Taken()
    await fetch_http(session, HttpSource(url="http://h.test/a.tar"), {}, taken.sink)
    assert taken.file.getvalue() == _CONTENT
    assert taken.sink.digest == f"sha256:{hashlib.sha256(_CONTENT).hexdigest()}"
    assert taken.told[-1] == Fetching("bundle b", len(_CONTENT), len(_CONTENT))
    assert len(taken.told) > 2


async def test_nothing_unpacks_it_on_the_way(session: aiohttp.ClientSession, server: Server) -> None:
    """A .tar.gz that a server calls gzip-encoded: the digest is of the file."""
    server.headers = {"Content-Encoding": "gzip"}
    taken = Taken()
    await fetch_http(session, HttpSource(url="http://h.test/a.tar.gz"), {}, taken.sink)
    assert taken.file.getvalue() == _CONTENT
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_redirects_are_followed(session: aiohttp.ClientSession) -> None:
    taken = Taken()
    await fetch_http(session, HttpSource(url="http://h.test/redirect"), {}, taken.sink)
    assert taken.file.getvalue() == _CONTENT


AUTHORIZATION = {
    "token": ({"token": b"abc\n"}, "Bearer abc"),
    "username and password": ({"username": b"u", "password": b"p"}, "Basic dTpw"),
    "token before username": ({"token": b"abc", "username": b"u"}, "Bearer abc"),
}


@pytest.mark.parametrize("name", AUTHORIZATION)
async def test_authorization(session: aiohttp.ClientSession, server: Server, name: str) -> None:
    secret, wanted = AUTHORIZATION[name]
    await fetch_http(session, HttpSource(url="http://h.test/a.tar"), http_headers(secret, "s"), Taken().sink)
    assert server.requests[0].headers["Authorization"] == wanted


REFUSALS = {
    404: ("BundleNotFound", Whose.USER),
    410: ("BundleNotFound", Whose.USER),
    401: ("BundleUnauthorized", Whose.USER),
    403: ("BundleUnauthorized", Whose.USER),
    400: ("BundleRefused", Whose.USER),
    429: ("BundleUnreachable", Whose.PLATFORM),
    503: ("BundleUnreachable", Whose.PLATFORM),
}


@pytest.mark.parametrize("status", REFUSALS)
async def test_refusals_by_http(session: aiohttp.ClientSession, server: Server, status: int) -> None:
    server.status = status
    with pytest.raises(InputFault) as caught:
        await fetch_http(session, _http(), {}, Taken().sink)
    assert (caught.value.reason, caught.value.whose) == REFUSALS[status]
    assert str(caught.value).startswith(f"bundle http://h.test/a.tar: {status}")
    assert _SECRET not in str(caught.value)


@pytest.mark.parametrize("status", REFUSALS)
async def test_refusals_by_s3(session: aiohttp.ClientSession, server: Server, status: int) -> None:
    server.status, server.text = status, f"<Error><Code>Why</Code><AWSAccessKeyId>{_SECRET}</AWSAccessKeyId></Error>"
    with pytest.raises(InputFault) as caught:
        await fetch_s3(session, _s3(), Keys("id", _SECRET), Taken().sink)
    assert (caught.value.reason, caught.value.whose) == REFUSALS[status]
    assert str(caught.value) == f"bundle s3://code/dir/a.tar: {status} Why"


async def test_a_broken_connection_is_the_platforms(session: aiohttp.ClientSession, server: Server) -> None:
    server.cut = True
    with pytest.raises(InputFault) as caught:
        await fetch_http(session, _http(), {}, Taken().sink)
    assert (caught.value.reason, caught.value.whose) == ("BundleUnreachable", Whose.PLATFORM)
    assert _SECRET not in str(caught.value)


async def test_nobody_there_is_the_platforms(tmp_path: Path) -> None:
    async with new_session(aiohttp.UnixConnector(str(tmp_path / "nobody"))) as session:
        for source in (_http(), _s3()):
            with pytest.raises(InputFault) as caught:
                if isinstance(source, HttpSource):
                    await fetch_http(session, source, {}, Taken().sink)
                else:
                    await fetch_s3(session, source, None, Taken().sink)
            assert (caught.value.reason, caught.value.whose) == ("BundleUnreachable", Whose.PLATFORM)
            assert _SECRET not in str(caught.value)


def _s3() -> S3Source:
    return S3Source(endpoint="http://s3.test", bucket="code", key="dir/a.tar")


async def test_s3_is_signed(session: aiohttp.ClientSession, server: Server) -> None:
    taken = Taken()
    await fetch_s3(session, _s3(), Keys("id", _SECRET), taken.sink)
    assert taken.file.getvalue() == _CONTENT
    (request,) = server.requests
    assert request.path == "/code/dir/a.tar"
    assert request.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=id/")


async def test_s3_is_anonymous_without_keys(session: aiohttp.ClientSession, server: Server) -> None:
    await fetch_s3(session, _s3(), None, Taken().sink)
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize("secret", [{}, {"password": b"p"}, {"token": b"\xff"}])
def test_a_secret_that_is_of_no_use_by_http(secret: dict[str, bytes]) -> None:
    with pytest.raises(InputFault) as caught:
        http_headers(secret, "s")
    assert caught.value.reason == "BundleSecretInvalid"


def test_a_secret_that_is_of_no_use_by_s3() -> None:
    with pytest.raises(InputFault) as caught:
        s3_keys({"accessKeyID": b"id"}, "s")
    assert caught.value.reason == "BundleSecretInvalid"
    assert s3_keys(None, "") is None


def test_urls_are_shown_without_secrets() -> None:
    assert shown(f"https://u:{_SECRET}@h.test:8443/a/b.tar?sig={_SECRET}#x") == "https://h.test:8443/a/b.tar"


def test_too_much_is_refused_before_it_comes() -> None:
    with pytest.raises(InputFault) as caught:
        Taken().sink.expect(2**40)
    assert caught.value.reason == "BundleTooLarge"
