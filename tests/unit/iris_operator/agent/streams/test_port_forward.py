"""One connection to a port of a Task. What listens is in memory: unit tests have no TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.unit.iris_operator.agent.streams.kit import UID, StreamNode

FORWARD = f"/v1/tasks/{UID}/1/portforward"


@pytest.fixture
async def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[tuple[str, int]]]:
    """Says back what it hears, then, at the end of it, "bye"; what was connected to. On 127.0.0.1 nobody listens."""
    asked: list[tuple[str, int]] = []
    sessions: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sessions.append(writer)
        while data := await reader.read(100):
            if data == b"break off":
                writer.transport.abort()
                return
            writer.write(data)
        writer.write(b"bye")
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "echo")

    async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        asked.append((host, port))
        if host == "127.0.0.1":
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_unix_connection(tmp_path / "echo")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    yield asked
    server.close()


async def test_both_ways_and_half_closed(node: StreamNode, echo: list[tuple[str, int]]) -> None:
    await node.start()
    async with node.session.ws_connect(FORWARD, params={"port": "80"}) as socket:
        await socket.send_bytes(b"hello")
        assert await socket.receive_bytes() == b"hello"
        await socket.send_str("end")
        assert await socket.receive_bytes() == b"bye"
        assert await socket.receive_str() == "end"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert echo == [("127.0.0.1", 80), ("::1", 80)]


async def test_a_connection_that_breaks_off_ends_it(node: StreamNode, echo: list[tuple[str, int]]) -> None:
    await node.start()
    async with asyncio.timeout(5), node.session.ws_connect(FORWARD, params={"port": "80"}) as socket:
        await socket.send_bytes(b"break off")
        while (await socket.receive()).type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            await socket.send_str("end")


async def test_refusals(node: StreamNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobody(host: str, port: int) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(asyncio, "open_connection", nobody)
    assert (await node.refused("GET", f"{FORWARD}?port=80"))[0] == 404
    await node.start()
    assert (await node.refused("GET", FORWARD))[0] == 400
    assert (await node.refused("GET", f"{FORWARD}?port=65536"))[0] == 400
    status, words = await node.refused("GET", f"{FORWARD}?port=80")
    assert status == 503 and "nothing answers on port 80" in words and "Connection refused" in words
