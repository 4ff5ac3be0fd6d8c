"""Signatures as the documentation's own examples have them; URLs; what is sent and what a refusal becomes."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from iris_operator.adapters.s3 import EMPTY_SHA256, Bucket, Keys, S3Error, get_object, put_file, signed

# "Examples: Signature Calculations" of the S3 API reference: everything below is from there.
_KEYS = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
_NOW = datetime(2013, 5, 24, tzinfo=UTC)
_HOST = "https://examplebucket.s3.amazonaws.com"
_WELCOME = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()
EXAMPLES = {
    "get": ("GET", "/test.txt", EMPTY_SHA256, {"Range": "bytes=0-9"},
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    "put": ("PUT", "/test%24file.text", _WELCOME,
        {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    "a query": ("GET", "/?lifecycle=", EMPTY_SHA256, {},
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_signature(name: str) -> None:
    method, path, sha256, more, signature = EXAMPLES[name]
    headers = signed(method, _HOST + path, "us-east-1", _KEYS, sha256, _NOW, more)
    assert headers["authorization"].rpartition("Signature=")[2] == signature


def test_anonymous() -> None:
    assert signed("GET", _HOST + "/x", "us-east-1", None, EMPTY_SHA256, _NOW) == {}


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://10.0.0.1:9000", "http://10.0.0.1:9000/b/a%20b/c.log"),
        ("https://s3.example/base/", "https://s3.example/base/b/a%20b/c.log"),
        ("https://{bucket}.s3.example", "https://b.s3.example/a%20b/c.log"),
        ("https://cwobject.com", "https://b.cwobject.com/a%20b/c.log"),
        ("http://cwlota.com", "http://b.cwlota.com/a%20b/c.log"),
        ("https://notcwlota.com", "https://notcwlota.com/b/a%20b/c.log"),
        ("", "https://b.s3.eu-central-1.amazonaws.com/a%20b/c.log"),
    ],
)
def test_url(endpoint: str, url: str) -> None:
    assert Bucket(endpoint, "eu-central-1", "b").url("a b/c.log") == url


def test_keys_are_not_shown() -> None:
    assert "wJalr" not in repr(_KEYS)


class Storage:
    """Object storage on a unix socket: checks each signature as it would, by signing what came."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refuse: tuple[int, str] | None = None

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        said = request.headers["Authorization"]
        names = said.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        more = {one: request.headers[one] for one in names if one not in ("host", "x-amz-date", "x-amz-content-sha256")}
        sha256 = hashlib.sha256(body).hexdigest()
        url = f"http://{request.headers['Host']}{request.raw_path}"
        if signed(request.method, url, "r", _KEYS, sha256, _NOW, more)["authorization"] != said:
            return web.Response(
                status=403, text="<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"
            )
        if self.refuse is not None:
            return web.Response(status=self.refuse[0], text=self.refuse[1])
        if request.method == "PUT":
            self.objects[request.raw_path] = body
            return web.Response()
        return web.Response(body=self.objects[request.raw_path])


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[tuple[Storage, aiohttp.ClientSession]]:
    found = Storage()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "s"))) as session:
        yield found, session
    await runner.cleanup()


_BUCKET = Bucket("http://storage", "r", "logs")


async def test_what_is_put_can_be_got(storage: tuple[Storage, aiohttp.ClientSession], tmp_path: Path) -> None:
    found, session = storage
    path = tmp_path / "log"
    path.write_bytes(b"x" * 3_000_000)
    url = await put_file(session, _BUCKET, "a b+c/1.log", _KEYS, path, _NOW, begin=2_999_998, head=b"... \n")
    assert url == "http://storage/logs/a%20b%2Bc/1.log"
    assert found.objects == {"/logs/a%20b%2Bc/1.log": b"... \nxx"}
    async with get_object(session, _BUCKET, "a b+c/1.log", _KEYS, _NOW) as answer:
        assert await answer.read() == b"... \nxx"


@pytest.mark.parametrize(
    ("status", "text", "message", "again"),
    [
        (
            403,
            "<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>",
            "403 AccessDenied: not yours",
            False,
        ),
        (503, "", "503", True),
        (429, "slow down", "429 slow down", True),
        (307, "", "307", False),
    ],
)
async def test_refusals(
    storage: tuple[Storage, aiohttp.ClientSession], tmp_path: Path, status: int, text: str, message: str, again: bool
) -> None:
    found, session = storage
    found.refuse = (status, text)
    (tmp_path / "log").write_bytes(b"")
    with pytest.raises(S3Error) as caught:
        await put_file(session, _BUCKET, "k", _KEYS, tmp_path / "log", _NOW)
    assert str(caught.value) == f"PUT http://storage/logs/k: {message}"
    assert caught.value.again is again


async def test_not_reached(tmp_path: Path) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "absent"))) as session:
        with pytest.raises(S3Error) as caught:
            async with get_object(session, _BUCKET, "k", None, _NOW):
                pass
    assert caught.value.again
