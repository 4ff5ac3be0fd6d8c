"""iris port-forward: which ports, and a connection through both ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from iris_operator.cli import port_forward
from iris_operator.cli.objects import get_task
from tests.unit.iris_operator.agent.streams.kit import Gateway
from tests.unit.iris_operator.cli.person import run_task

TASK_WITH_PORTS = {"ports": [{"name": "http", "port": 31000}, {"name": "dns", "port": 53, "protocol": "UDP"}]}


@pytest.mark.parametrize(
    ("text", "pair"),
    [("80", (80, 80)), ("9000:80", (9000, 80)), (":http", (0, 31000)), ("http", (31000, 31000)), ("0:80", (0, 80))],
)
async def test_ports_by_number_and_name(gateway: Gateway, text: str, pair: tuple[int, int]) -> None:
    await gateway.task("t", **TASK_WITH_PORTS)
    task = await get_task(gateway.cli, "t")
    assert port_forward.pair_of(text, task) == port_forward.Pair(*pair)


@pytest.mark.parametrize("text", ["", "0", "65536", "dns", "x:80", "80:x", "-1:80", "1:2:3", "70000:80"])
async def test_ports_that_are_none(gateway: Gateway, text: str) -> None:
    await gateway.task("t", **TASK_WITH_PORTS)
    task = await get_task(gateway.cli, "t")
    with pytest.raises(click.UsageError):
        port_forward.pair_of(text, task)


async def test_a_forwarded_connection(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through both ends: the person's and the Task's are unix sockets here."""
    await run_task(gateway)

    async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"BYE")
        writer.close()

    async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert (host, port) == ("127.0.0.1", 80)
        return await asyncio.open_unix_connection(tmp_path / "task")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    carrier = port_forward.Carrier(gateway.cli, "t", 80)
    there = await asyncio.start_unix_server(upper, tmp_path / "task")
    here = await asyncio.start_unix_server(carrier.carry, tmp_path / "here")
    async with there, here:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "here")
        text = b"words " * 200_000

        async def send() -> None:
            writer.write(text)
            writer.write_eof()
            await writer.drain()

        _, heard = await asyncio.gather(send(), reader.read())
        assert heard == text.upper() + b"BYE"
        writer.close()


async def test_a_port_on_which_nobody_listens_is_said(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_task(gateway)

    async def nobody(host: str, port: int) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(asyncio, "open_connection", nobody)
    async with await asyncio.start_unix_server(port_forward.Carrier(gateway.cli, "t", 80).carry, tmp_path / "here"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "here")
        assert await reader.read() == b""
        writer.close()
    assert "port 80: " in capsys.readouterr().err
