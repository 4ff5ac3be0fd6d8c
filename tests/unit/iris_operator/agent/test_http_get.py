"""GETs of probes and preStop against a server on a unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from iris_operator.agent.http_get import HttpGetter, url_of
from iris_operator.agent.probes.ask import Address, Asker
from iris_operator.api.probe import HttpGetAction
from iris_runtimes.fake import FakeRuntime

Asked = list[tuple[str, str]]


@pytest.fixture
def asked() -> Asked:
    """Path and Host header of each request."""
    return []


@pytest.fixture
async def http(tmp_path: Path, asked: Asked) -> AsyncIterator[HttpGetter]:
    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path_qs, request.headers["Host"]))
        if request.path == "/round":
            return web.Response(status=302, headers={"Location": "/round"})
        if "to" in request.query:
            return web.Response(status=int(request.query.get("by", "302")), headers={"Location": request.query["to"]})
        return web.Response(status=int(request.path.removeprefix("/") or 200))

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    getter = HttpGetter(lambda: aiohttp.UnixConnector(str(tmp_path / "s"), force_close=True))
    yield getter
    await getter.close()
    await runner.cleanup()


ANSWERS: dict[str, tuple[str, int, bool, int]] = {
    "success": ("/", 200, True, 1),
    "failure": ("/503", 503, False, 1),
    "without a slash": ("204", 204, True, 1),
    "to another path of it": ("/?to=/404", 404, False, 2),
    "to another port and scheme of it": ("/?to=http://10.0.0.7:1/500&by=307", 500, False, 2),
    "to another host": ("/?to=http://elsewhere.test/", 302, True, 1),
    "to no HTTP": ("/?to=ftp://10.0.0.7/", 302, True, 1),
    "to nowhere": ("/304", 304, True, 1),
}


@pytest.mark.parametrize(("path", "status", "good", "requests"), ANSWERS.values(), ids=ANSWERS)
async def test_redirections_are_followed_to_the_same_host_only(
    http: HttpGetter, asked: Asked, path: str, status: int, good: bool, requests: int
) -> None:
    answer = await http.get(HttpGetAction(path=path, port=80), "10.0.0.7", 8080)
    assert (answer.status, answer.good, len(asked)) == (status, good, requests)


async def test_a_circle_ends(http: HttpGetter, asked: Asked) -> None:
    action = HttpGetAction(path="/round", port=80)
    with pytest.raises(aiohttp.ClientError, match="stopped after 10 redirects"):
        await http.get(action, "", 80)
    assert len(asked) == 10
    answer = await Asker(FakeRuntime(), http).http_get(action, Address("s", "", {}), 5)
    assert (answer.ok, answer.words) == (False, "GET :80/round stopped after 10 redirects")


async def test_headers_and_addresses_of_ipv6(http: HttpGetter, asked: Asked) -> None:
    await http.get(HttpGetAction(path="/", port=80), "fd00::7", 8080)
    action = HttpGetAction.model_validate({"port": 80, "httpHeaders": [{"name": "Host", "value": "app.test"}]})
    await http.get(action, "fd00::7", 8080)
    assert [host for _, host in asked] == ["[fd00::7]:8080", "app.test"]


@pytest.mark.parametrize(
    ("action", "host", "url"),
    [
        (HttpGetAction(port="web"), "", "http://127.0.0.1:8080/"),
        (HttpGetAction(path="a%2Fb?c=%20", port=1, scheme="HTTPS"), "fd00::7", "https://[fd00::7]:8080/a%2Fb?c=%20"),
    ],
)
def test_what_is_asked_for(action: HttpGetAction, host: str, url: str) -> None:
    assert str(url_of(action, host, 8080)) == url
