"""Probes over the network, against servers on the loopback: unit tests have their sockets off."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from iris_devcluster.pki import Pki
from iris_operator.agent.node.ports import host_ports
from iris_operator.agent.probes.ask import Address, Asker
from iris_operator.agent.probes.verdict import Answer
from iris_operator.api.probe import Probe
from iris_runtimes.fake import FakeRuntime

HERE = "127.0.0.1"


async def answer(request: web.Request) -> web.Response:
    """/status/CODE with that status, /slow never, /headers with what was sent."""
    if request.path == "/slow":
        await asyncio.sleep(60)
    if request.path == "/headers":
        wanted = request.headers.get("X-Probe") == "yes" and request.headers["Host"] == "example.test"
        return web.Response(status=204 if wanted else 400)
    code = int(request.path.rpartition("/")[2] or 200)
    return web.Response(status=code, headers={"Location": "http://192.0.2.1/"} if code // 100 == 3 else {})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[dict[str, int]]:
    """Ports by name: http, https, and one where nobody listens."""
    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    pki = Pki(tmp_path / "pki")
    pki.prepare()
    pair = pki.server("server", ["DNS:elsewhere.test"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    ports = {}
    for name, tls in (("http", None), ("https", context)):
        site = web.TCPSite(runner, HERE, 0, ssl_context=tls)
        await site.start()
        ports[name] = runner.addresses[-1][1]
    with socket.socket() as closed:
        closed.bind((HERE, 0))  # bound and not listening: nobody else gets it
        ports["closed"] = closed.getsockname()[1]
        yield ports
    await runner.cleanup()


async def ask(ports: dict[str, int], timeout: int = 5, **action: Any) -> Answer:
    """One answer, with the port's name in place of its number."""
    asker = Asker(FakeRuntime())
    try:
        probe = Probe.model_validate({**action, "timeoutSeconds": timeout})
        found = await asker.ask(probe, Address("s", HERE, ports))
    finally:
        await asker.close()
    assert found is not None
    words = found.words
    for name, number in ports.items():
        words = words.replace(str(number), name)
    return Answer(found.ok, words)


HTTP: dict[str, tuple[dict[str, Any], Answer]] = {
    "200": ({"port": "http"}, Answer(True, "GET :http/ 200 OK")),
    "a path without its slash": ({"port": "http", "path": "status/204"}, Answer(True, "GET :http/status/204 204 No Content")),
    "a redirection, not followed": ({"port": "http", "path": "/302"}, Answer(True, "GET :http/302 302 Found")),
    "404": ({"port": "http", "path": "/404"}, Answer(False, "GET :http/404 404 Not Found")),
    "500": ({"port": "http", "path": "/500"}, Answer(False, "GET :http/500 500 Internal Server Error")),
    "headers, the host's too": (
        {"port": "http", "path": "/headers",
         "httpHeaders": [{"name": "X-Probe", "value": "yes"}, {"name": "Host", "value": "example.test"}]},
        Answer(True, "GET :http/headers 204 No Content"),
    ),
    "a header that can't be sent": (
        {"port": "http", "httpHeaders": [{"name": "X", "value": "a\r\nb: c"}]},
        Answer(False, ""),
    ),
    "a certificate of another": ({"port": "https", "scheme": "HTTPS"}, Answer(True, "GET :https/ 200 OK")),
    "nobody listens": ({"port": "closed"}, Answer(False, "GET :closed/ Connection refused")),
    "no such name": ({"port": "web"}, Answer(False, "GET :web/ there is no such port")),
}  # fmt: skip


@pytest.mark.parametrize(("action", "wanted"), HTTP.values(), ids=HTTP)
async def test_http(server: dict[str, int], action: dict[str, Any], wanted: Answer) -> None:
    found = await ask(server, httpGet=action)
    assert found.ok == wanted.ok
    if wanted.words:
        assert found.words == wanted.words


async def test_http_that_does_not_answer(server: dict[str, int]) -> None:
    found = await ask(server, timeout=1, httpGet={"port": "http", "path": "/slow"})
    assert found == Answer(False, "GET :http/slow no answer within 1s")


async def test_plain_http_of_a_tls_server_and_the_other_way(server: dict[str, int]) -> None:
    assert not (await ask(server, httpGet={"port": "https"})).ok
    assert not (await ask(server, httpGet={"port": "http", "scheme": "HTTPS"})).ok


async def test_tcp(server: dict[str, int]) -> None:
    assert await ask(server, tcpSocket={"port": "http"}) == Answer(True, "TCP :http")
    found = await ask(server, tcpSocket={"port": "closed"})
    assert found == Answer(False, "TCP :closed Connection refused")
    assert not (await ask(server, tcpSocket={"port": "web"})).ok


async def test_a_server_that_takes_and_drops_connections_is_no_http_server() -> None:
    async def drop(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\xff garbage\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(drop, HERE, 0)
    async with server:
        ports = {"odd": server.sockets[0].getsockname()[1]}
        assert not (await ask(ports, httpGet={"port": "odd"})).ok
        assert (await ask(ports, tcpSocket={"port": "odd"})).ok


async def test_the_kernels_tables_name_who_listens(server: dict[str, int]) -> None:
    """Of this network: agent/node/ports reads what really is there."""
    found = host_ports()
    assert {("TCP", server["http"]), ("TCP", server["https"])} <= found.served
    assert ("TCP", server["closed"]) not in found.served
