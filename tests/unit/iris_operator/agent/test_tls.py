"""The agent's certificate: asked for, renewed in time; and whom the streams' port lets in."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.agent.config import AgentConfig
from iris_operator.agent.node import tls
from iris_operator.agent.node.tls import Certificate, gateway_only
from iris_operator.identity.authority import Authority, first_authority
from iris_operator.identity.certificates import Pair, Subject, issue, read_request, sign
from iris_operator.identity.names import GATEWAY_USER, agent_host
from iris_operator.identity.tls import client_context, take
from iris_operator.ports.kube import REQUESTS

UID = "6dad5bce-aaa1-4e3e-be79-27a1842a2106"
DAY = timedelta(days=1)


class World:
    """An agent without the rest, an operator that signs when told to, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.api, self.socket = FakeKube(), str(folder / "s")
        self.now = datetime.now(UTC) - timedelta(hours=17)  # the TLS library has a clock of its own: leave it room
        self.authority: Authority = first_authority(self.now)
        config = AgentConfig("n", "s-worker-0", "team", UID, "10.0.0.7", "s", 0)
        self.certificate = Certificate(self.api, config, lambda: self.now)

    async def requests(self, number: int) -> list[str]:
        """Names of all requests once there are so many."""
        while len(names := [one["metadata"]["name"] for one in (await self.api.list(REQUESTS)).items]) < number:
            await asyncio.sleep(0.01)
        return names

    async def answer(self, name: str) -> None:
        """Sign it."""
        asked = await self.api.get(REQUESTS, name)
        request = read_request(base64.b64decode(asked["spec"]["request"]))
        signed = sign(self.authority.current, request, self.now, DAY, server=True) + self.authority.bundle
        status = {"certificate": base64.b64encode(signed).decode()}
        await self.api.patch(REQUESTS, name, {"status": status}, subresource="status")

    async def get(self, pair: Pair | None, host: str = agent_host(UID)) -> tuple[str, str]:
        """The status line of GET / as a client with that certificate, and when the server's ends."""
        context = client_context()
        take(context, pair, self.authority.bundle)
        reader, writer = await asyncio.open_unix_connection(self.socket, ssl=context, server_hostname=host)
        ends = writer.get_extra_info("peercert")["notAfter"]
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        try:
            return (await reader.readline()).decode().strip(), ends
        finally:
            writer.close()

    def client(self, name: str = GATEWAY_USER, *, client: bool = True) -> Pair:
        return issue(self.authority.current, Subject(name), self.now, DAY, server=not client, client=client)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(tls, "_LOOK_SECONDS", (0.005, 0.02))
    monkeypatch.setattr(tls, "_RETRY_SECONDS", (0.005, 0.02))
    monkeypatch.setattr(tls, "_REFUSED_SECONDS", (0.005, 0.02))
    monkeypatch.setattr(tls, "_STEP_SECONDS", 0.01)
    return World(tmp_path)


@asynccontextmanager
async def _serving(world: World) -> AsyncIterator[None]:
    """The certificate kept, its first one there, and an app behind it."""

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application(middlewares=[gateway_only])
    app.router.add_get("/", hello)
    keeping = asyncio.create_task(world.certificate.keep())
    (name,) = await world.requests(1)
    await world.answer(name)
    await world.certificate.has_one.wait()
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, world.socket, ssl_context=world.certificate.context).start()
    yield
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await runner.cleanup()


async def test_the_gateway_gets_in_and_another_of_the_same_authority_does_not(world: World) -> None:
    async with _serving(world):
        assert (await world.get(world.client()))[0] == "HTTP/1.1 200 OK"
        assert (await world.get(world.client("somebody")))[0] == "HTTP/1.1 403 Forbidden"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_nobody_else_gets_as_far_as_asking(world: World) -> None:
    stranger = first_authority(world.now)
    foreign = issue(stranger.current, Subject(GATEWAY_USER), world.now, DAY, server=False, client=True)
    an_agents = world.client(client=False)
    async with _serving(world):
        for pair in (None, foreign, an_agents):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                line, _ = await world.get(pair)
                if not line:
                    raise ConnectionResetError  # it was ended without an answer


async def test_the_gateway_sees_when_it_is_another_pods_agent(world: World) -> None:
    async with _serving(world):
        with pytest.raises(ssl.SSLCertVerificationError):
            await world.get(world.client(), agent_host("another-uid"))


async def test_it_is_renewed_at_two_thirds_of_its_life_with_a_new_key(world: World) -> None:
    async with _serving(world):
        _, first = await world.get(world.client())
        world.now += timedelta(hours=15)
        await asyncio.sleep(0.05)
        assert len(await world.requests(1)) == 1
        world.now += timedelta(hours=2)
        names = await world.requests(2)
        assert (await world.get(world.client()))[1] == first  # the old one serves until the new one is there
        for name in names:
            await world.answer(name)
        while (await world.get(world.client()))[1] == first:
            await asyncio.sleep(0.01)
        pems = [(await world.api.get(REQUESTS, name))["spec"]["request"] for name in names]
        keys = {read_request(base64.b64decode(pem)).public_key.public_numbers() for pem in pems}
        assert len(keys) == 2


async def test_a_refusal_and_an_api_that_is_away_are_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.api.set_down(True)
    keeping = asyncio.create_task(world.certificate.keep())
    await asyncio.sleep(0.05)
    await world.api.set_down(False)
    (first,) = await world.requests(1)
    denied = {"conditions": [{"type": "Denied", "status": "True", "message": "no worker Pod"}]}
    await world.api.patch(REQUESTS, first, {"status": denied}, subresource="approval")
    (second,) = {*await world.requests(2)} - {first}
    assert "no worker Pod" in caplog.text
    await world.api.delete(REQUESTS, second)  # as the API server does with what nobody signs
    (third,) = {*await world.requests(2)} - {first, second}
    await world.answer(third)
    await world.certificate.has_one.wait()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
