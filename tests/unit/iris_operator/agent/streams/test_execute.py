"""Commands in a Task over a WebSocket: the bytes of design 004."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import aiohttp
import pytest

from iris_operator.agent.streams import execute
from iris_runtimes.fake_session import FakeSession
from tests.unit.iris_operator.agent.streams.kit import UID, StreamNode

EXEC = f"/v1/tasks/{UID}/1/exec"


async def messages(socket: aiohttp.ClientWebSocketResponse) -> list[bytes]:
    return [message.data async for message in socket]


async def run(node: StreamNode, *params: tuple[str, str]) -> list[bytes]:
    async with node.session.ws_connect(EXEC, params=params) as socket:
        return await messages(socket)


def command(*words: str) -> list[tuple[str, str]]:
    return [("command", word) for word in words]


async def test_output_then_the_exit_code(node: StreamNode) -> None:
    await node.start()
    assert await run(node, *command("echo", "a b")) == [b"\x01a b\n", b'\x03{"exitCode": 0}']
    assert await run(node, *command("sh", "-c", "echo no >&2")) == [b"\x02no\n", b'\x03{"exitCode": 0}']
    assert await run(node, *command("sh", "-c", "exit 7")) == [b'\x03{"exitCode": 7}']


async def test_what_is_asked_reaches_the_runtime(node: StreamNode) -> None:
    await node.start()
    params = [("stdin", "1"), ("tty", "1"), ("columns", "101"), ("rows", "33"), ("workingDir", "/w")]
    assert (await run(node, *command("stty", "size"), *params))[0] == b"\x0133 101\n"
    asked = node.runtime.sessions[-1].request
    assert (asked.stdin, asked.terminal, asked.working_dir) == (True, True, "/w")


async def test_input_its_end_and_a_new_size(node: StreamNode) -> None:
    await node.start()
    async with node.session.ws_connect(EXEC, params=[*command("cat"), ("stdin", "1"), ("tty", "1")]) as socket:
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x01hello"
        for size in (b'{"columns": 99, "rows": 5}', b"nonsense", b'{"columns": "x"}'):
            await socket.send_bytes(b"\x04" + size)
        await socket.send_bytes(b"")
        await socket.send_str("words")
        await socket.send_bytes(b"\x09unknown")
        await socket.send_bytes(b"\x05")
        assert await messages(socket) == [b'\x03{"exitCode": 0}']
    assert node.runtime.sessions[-1].size == (99, 5)


async def test_who_goes_ends_the_command(node: StreamNode) -> None:
    await node.start()
    async with node.session.ws_connect(EXEC, params=command("sleep", "9")):
        pass
    async with asyncio.timeout(5):
        while not node.runtime.sessions[-1].closed:
            await asyncio.sleep(0.01)


async def test_who_goes_while_the_command_does_not_read_ends_it(
    node: StreamNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: FakeSession, data: bytes) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(execute, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(FakeSession, "write", never)
    await node.start()
    socket = await node.session.ws_connect(EXEC, params=[*command("cat"), ("stdin", "1")])

    async def flood() -> None:  # until every buffer between is full
        while True:
            await socket.send_bytes(b"\x00" + b"x" * 60_000)

    flooding = asyncio.create_task(flood())
    await asyncio.sleep(0.3)
    assert not flooding.done() and not node.runtime.sessions[-1].closed
    flooding.cancel()
    response = socket._response
    assert response.connection is not None and response.connection.transport is not None
    response.connection.transport.abort()
    async with asyncio.timeout(5):
        while not node.runtime.sessions[-1].closed:
            await asyncio.sleep(0.01)


async def test_a_sandbox_that_ends_ends_its_commands(node: StreamNode) -> None:
    await node.start()
    async with node.session.ws_connect(EXEC, params=command("sleep", "9")) as socket:
        while not node.runtime.sessions:
            await asyncio.sleep(0.01)
        node.runtime.sessions[-1].end(137)
        assert await messages(socket) == [b'\x03{"exitCode": 137}']


async def test_a_command_that_is_not_there(node: StreamNode) -> None:
    await node.start()
    [end] = await run(node, *command("/nonexistent"))
    assert json.loads(end[1:]) == {"error": "/nonexistent is not in the image", "reason": "CommandNotFound"}


@pytest.mark.parametrize(
    ("params", "status", "words"),
    [
        ([], 400, "command is missing"),
        ([("command", "true"), ("tty", "1"), ("rows", "0")], 400, "rows is '0'"),
        ([("command", "true")], 400, "is a WebSocket"),
    ],
)
async def test_refusals(node: StreamNode, params: Sequence[tuple[str, str]], status: int, words: str) -> None:
    await node.start()
    query = "&".join(f"{name}={value}" for name, value in params)
    found, message = await node.refused("GET", f"{EXEC}?{query}")
    assert found == status and words in message


async def test_a_task_that_does_not_run(node: StreamNode) -> None:
    assert (await node.refused("GET", f"{EXEC}?command=true"))[0] == 404
    await node.start(command=["exit", "3"])
    assert (await node.refused("GET", f"{EXEC}?command=true"))[0] == 409
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await run(node, *command("true"))
