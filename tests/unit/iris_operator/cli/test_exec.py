"""iris exec: streams, screens, exit codes, and what breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import click
import pytest

from iris_operator.api.streams import Channel
from iris_operator.cli import exec as exec_module
from iris_operator.cli.task_exec import ExecError, Request, Screen, execute
from tests.unit.iris_operator.agent.streams.kit import Gateway
from tests.unit.iris_operator.cli.person import HERE, Heard, run_task, source


async def test_exec_passes_everything_on(gateway: Gateway) -> None:
    await run_task(gateway)
    heard = Heard()
    assert await execute(gateway.cli, "t", Request(["cat"], source(b"ab", b"\xff\x00")), heard.take) == 0
    assert b"".join(data for _, data in heard.pieces) == b"ab\xff\x00"
    assert await execute(gateway.cli, "t", Request(["sh", "-c", "exit 9"]), heard.take) == 9
    heard.pieces.clear()
    await execute(gateway.cli, "t", Request(["sh", "-c", "echo oh >&2"]), heard.take)
    assert heard.pieces == [(Channel.STDERR, b"oh\n")]


async def test_exec_with_a_screen(gateway: Gateway) -> None:
    await run_task(gateway)

    async def sizes() -> AsyncIterator[tuple[int, int]]:
        yield 99, 9
        await asyncio.Event().wait()

    async def typed() -> AsyncIterator[bytes]:
        while not sessions or sessions[-1].size != (99, 9):
            await asyncio.sleep(0.005)
        yield b"x"

    sessions = gateway.node.runtime.sessions
    running = asyncio.create_task(
        execute(gateway.cli, "t", Request(["cat"], typed(), Screen(lambda: (80, 25), sizes), "/w"), Heard().take)
    )
    while not sessions:
        await asyncio.sleep(0.005)
    asked = sessions[-1].request
    assert (asked.columns, asked.rows, asked.terminal, asked.working_dir) == (80, 25, True, "/w")
    assert await running == 0


async def test_exec_of_a_command_that_is_not_there(gateway: Gateway) -> None:
    await run_task(gateway)
    with pytest.raises(ExecError, match="/nonexistent is not in the image") as caught:
        await execute(gateway.cli, "t", Request(["/nonexistent"]), Heard().take)
    assert caught.value.exit_code == 127


async def test_exec_whose_connection_breaks_off(gateway: Gateway) -> None:
    await run_task(gateway)

    async def break_off(channel: Channel, data: bytes) -> None:
        await gateway.node.session.connector.close()  # type: ignore[union-attr]

    with pytest.raises(ExecError, match=r"connection .* broke off"):
        await execute(gateway.cli, "t", Request(["cat"], endless()), break_off)


async def endless() -> AsyncIterator[bytes]:
    yield b"x"
    await asyncio.Event().wait()


async def test_exec_of_a_task_that_is_not_there_or_does_not_run(gateway: Gateway) -> None:
    with pytest.raises(click.ClickException, match="no Task absent in namespace default"):
        await exec_module._exec("absent", ("true",), False, False, "", HERE)
    await gateway.task("t")
    with pytest.raises(click.ClickException, match=r"^attempt 1 of the Task does not run on this node \(any more\)$"):
        await exec_module._exec("t", ("true",), False, False, "", HERE)


async def test_a_source_that_breaks_is_told(gateway: Gateway) -> None:
    await run_task(gateway)

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise click.ClickException("reading x: no")

    with pytest.raises(click.ClickException, match="reading x"):
        await execute(gateway.cli, "t", Request(["cat"], broken()), Heard().take)
