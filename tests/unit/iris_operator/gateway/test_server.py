"""The gateway between a client and an agent, both on unix sockets: unit tests have no others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.gateway.headers import front_proxy
from iris_operator.gateway.server import Gateway
from iris_operator.ports.kube import ACCESS_REVIEWS, LEASES, PODS, TASKS, Body, Kind
from tests.unit.iris_operator.gateway.test_words import BASE, HEADERS

ANN = {"X-Remote-User": "ann"}
LOG = f"{BASE}/tasks/t/log"
EXEC = f"{BASE}/tasks/t/exec"


class Api(FakeKube):
    """The fake API, whose users may what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = {("ann", "get", "log"), ("ann", "create", "exec")}

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        if kind != ACCESS_REVIEWS:
            return await super().create(kind, body, namespace)
        what = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (body["spec"]["user"], what["verb"], what["subresource"]) in self.allowed}}


class World:
    """One Task on one agent, whose handler a test gives."""

    def __init__(self, folder: Path) -> None:
        self.api, self.folder = Api(), folder
        self.peer = "front-proxy-client"
        self.asked: list[web.Request] = []
        self.ended = asyncio.Event()
        self.runners: list[web.AppRunner] = []
        self.agents = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(folder / "agent")), read_bufsize=2**20)
        self.client = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(folder / "gateway")))
        self.path = ""

    async def begin(self) -> None:
        proxy = front_proxy({"data": HEADERS})
        gateway = Gateway(self.api, self.agents, lambda: proxy, lambda _: self.peer)
        await self.listen(gateway.app(lambda: True), "gateway")
        binding = {
            "sliceName": "s", "nodeName": "n", "workerPod": "w", "rank": 0, "attempt": 1,
            "boundAt": "2026-11-21T11:59:59Z",
        }  # fmt: skip
        labels = {"iris-managed": "true", "iris.dev/slice": "s"}
        ports = [{"name": "stream", "containerPort": 10002}]
        spec = {"containers": [{"name": "agent", "ports": ports}], "nodeName": "n"}
        pod = await self.api.create(PODS, {"metadata": {"name": "w", "labels": labels}, "spec": spec}, "team")
        status = {"status": {"hostIP": "10.0.0.7", "phase": "Running"}}
        await self.api.patch(PODS, "w", status, namespace="team", subresource="status")
        binding["workerUid"] = pod["metadata"]["uid"]
        made = await self.api.create(
            TASKS, {"metadata": {"name": "t"}, "spec": {"image": "i", "binding": binding}}, "team"
        )
        self.path = f"/v1/tasks/{made['metadata']['uid']}/1"

    async def agent(self, handler: Any) -> None:
        """An agent that answers everything by `handler`."""

        async def answer(request: web.Request) -> web.StreamResponse:
            self.asked.append(request)
            try:
                found: web.StreamResponse = await handler(request)
                return found
            finally:
                self.ended.set()

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        await self.listen(app, "agent")

    async def listen(self, app: web.Application, name: str) -> None:
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        self.runners.append(runner)
        await web.UnixSite(runner, str(self.folder / name)).start()

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.client.get(f"http://gateway{path}", headers=headers or ANN) as response:
            return response.status, await response.json(content_type=None)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.begin()
    yield made
    await made.client.close()
    await made.agents.close()
    for runner in made.runners:
        await runner.cleanup()


async def test_a_log_comes_as_it_is_with_its_offset(world: World) -> None:
    async def logs(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\x00\xffwords\n", headers={"Iris-Log-Offset": "7", "Set-Cookie": "no"})

    await world.agent(logs)
    query = "?attempt=1&follow=1&tail=3&x=a%20b&x=%26"
    async with world.client.get(f"http://gateway{LOG}{query}", headers={**ANN, "Authorization": "x"}) as response:
        assert (response.status, await response.read()) == (200, b"\x00\xffwords\n")
        assert response.headers["Iris-Log-Offset"] == "7"
        assert "Set-Cookie" not in response.headers
    (asked,) = world.asked
    assert asked.path == f"{world.path}/log"
    assert list(asked.query.items()) == [("follow", "1"), ("tail", "3"), ("x", "a b"), ("x", "&")]
    assert not {"X-Remote-User", "Authorization"} & set(asked.headers)


async def test_a_machine_without_a_pod_is_asked_where_its_lease_says(world: World) -> None:
    async def logs(_: web.Request) -> web.StreamResponse:
        return web.Response(text="of a machine")

    await world.agent(logs)
    uid = (await world.api.get(PODS, "w", "team"))["metadata"]["uid"]
    await world.api.delete(PODS, "w", "team", grace_seconds=0)
    status, body = await world.get(LOG)
    assert (status, body["reason"]) == (404, "NotFound")
    said = json.dumps({"nodeName": "n", "address": "192.0.2.1"})
    labels = {"iris-managed": "true", "iris.dev/slice": "s", "iris.dev/machine": "true"}
    metadata = {"name": "w", "labels": labels, "annotations": {"iris.dev/machine": said}}
    await world.api.create(LEASES, {"metadata": metadata, "spec": {"holderIdentity": uid}}, "team")
    async with world.client.get(f"http://gateway{LOG}", headers=ANN) as response:
        assert (response.status, await response.text()) == (200, "of a machine")


@pytest.mark.parametrize("who", ["nobody", "no header"])
async def test_who_is_not_vouched_for_gets_nothing(world: World, who: str) -> None:
    if who == "nobody":
        world.peer = ""
    for path in (LOG, "/apis", "/apis/stream.iris.dev/v1alpha1"):
        status, body = await world.get(path, **(ANN if who == "nobody" else {"Accept": "*/*"}))
        assert (status, body["reason"]) == (401, "Unauthorized")
    assert not world.asked


async def test_who_may_not_is_told_the_right_and_nothing_else(world: World) -> None:
    status, body = await world.get(EXEC, **{"X-Remote-User": "vic"})
    assert (status, body["kind"], body["reason"]) == (403, "Status", "Forbidden")
    assert 'cannot create resource "tasks/exec"' in body["message"]
    _, missing = await world.get(EXEC.replace("/t/", "/none/"), **{"X-Remote-User": "vic"})
    assert missing["message"] == body["message"].replace('"t"', '"none"')


async def test_what_is_missing_is_told(world: World) -> None:
    assert (await world.get(LOG.replace("/t/", "/none/")))[0] == 404
    assert (await world.get(f"{BASE}/tasks/t/none"))[0] == 404
    status, body = await world.get(LOG)
    assert (status, body["reason"]) == (503, "ServiceUnavailable")
    assert "the agent in Pod w on node n does not answer" in body["message"]


async def test_an_api_that_is_away_is_told(world: World) -> None:
    await world.api.set_down(True)
    assert (await world.get(LOG))[0] == 503
    await world.api.set_down(False)


async def test_an_agents_refusal_comes_as_it_is(world: World) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        raise web.HTTPConflict(text='{"message": "it has ended"}', content_type="application/json")

    await world.agent(refuse)
    assert await world.get(EXEC) == (409, {"message": "it has ended"})
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await world.client.ws_connect(f"http://gateway{EXEC}", headers=ANN)
    assert refused.value.status == 409


async def test_a_stream_that_breaks_off_is_seen_to(world: World) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    await world.agent(half)
    with pytest.raises(aiohttp.ClientPayloadError):
        async with world.client.get(f"http://gateway{LOG}", headers=ANN) as response:
            await response.read()


async def test_a_reader_that_leaves_ends_the_agents_handler(world: World) -> None:
    async def quiet(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a")
        await asyncio.Event().wait()
        return response

    await world.agent(quiet)
    async with world.client.get(f"http://gateway{LOG}", headers=ANN) as response:
        assert await response.content.readexactly(1) == b"a"
        response.close()
    async with asyncio.timeout(5):
        await world.ended.wait()


async def test_a_slow_reader_slows_the_agent(world: World) -> None:
    written = 0

    async def much(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(400):
            await response.write(b"x" * 2**18)
            written += 2**18
        return response

    await world.agent(much)
    async with world.client.get(f"http://gateway{LOG}", headers=ANN) as response:
        before = -1
        while before != written or not written:
            before = written
            await asyncio.sleep(0.1)
        assert written < 50 * 2**20
        total = len(await response.read())
    assert total == 400 * 2**18


async def test_a_websocket_goes_both_ways_and_ends_with_its_words(world: World) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await socket.send_str(message.data.upper())
                break
            await socket.send_bytes(message.data[::-1])
        await socket.close(code=4001)
        return socket

    await world.agent(talk)
    async with world.client.ws_connect(f"http://gateway{EXEC}?command=a&command=b", headers=ANN) as socket:
        for _ in range(3):
            await socket.send_bytes(b"\x00\x01\xff")
            assert await socket.receive_bytes() == b"\xff\x01\x00"
        await socket.send_str("end")
        assert await socket.receive_str() == "END"
        assert (await socket.receive()).type is WSMsgType.CLOSE
        assert socket.close_code == 4001
    assert world.asked[0].query.getall("command") == ["a", "b"]


async def test_a_websocket_whose_client_leaves_is_closed_at_the_agent(world: World) -> None:
    async def wait(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    await world.agent(wait)
    socket = await world.client.ws_connect(f"http://gateway{EXEC}", headers=ANN)
    await socket.close()
    async with asyncio.timeout(5):
        await world.ended.wait()


async def test_health_needs_nobody(world: World) -> None:
    world.peer = ""
    for path in ("/livez", "/readyz"):
        async with world.client.get(f"http://gateway{path}") as response:
            assert response.status == 200
