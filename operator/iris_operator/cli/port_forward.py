"""`iris port-forward`."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import aiohttp
import click

from iris_operator.adapters.websockets import keep_alive
from iris_operator.api.streams import PORT_END, task_stream
from iris_operator.api.task import Task
from iris_operator.cli.objects import get_task
from iris_operator.cli.session import Session, Target, explain, run_async, session, target_options
from iris_operator.ports.errors import ApiError

_CHUNK = 256 * 1024


@dataclass(frozen=True)
class Pair:
    """A port here and the Task's. `local` 0: any free one."""

    local: int
    remote: int


@click.command("port-forward")
@click.argument("task")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on here.")
@target_options
def port_forward(
    task: str, ports: tuple[str, ...], address: str, namespace: str | None, kubeconfig: str | None, context: str | None
) -> None:
    """Listen here, and carry each connection to a port of a running TASK, until Ctrl-C.

    REMOTE is a number or the name of one of the Task's ports (spec.ports). LOCAL 0 or an empty one (:8080) takes a free
    port. A Task that runs again elsewhere is found again: connections made after that go there.

    \b
      iris port-forward notebook 8888
      iris port-forward notebook 9000:http :metrics
    """
    run_async(_forward(task.removeprefix("task/"), ports, address, Target(kubeconfig, context, namespace)))


async def _forward(name: str, ports: tuple[str, ...], address: str, target: Target) -> None:
    async with session(target) as found, contextlib.AsyncExitStack() as stack:
        task = await get_task(found, name)
        pairs = [pair_of(text, task) for text in ports]
        for pair in pairs:
            carrier = Carrier(found, name, pair.remote)
            try:
                server = await asyncio.start_server(carrier.carry, address, pair.local)
            except OSError as error:
                raise click.ClickException(
                    f"port {pair.local} on {address} is not to be had: {error.strerror}"
                ) from error
            stack.callback(server.close)  # not waited for: connections that are open end with us
            local = server.sockets[0].getsockname()[1]
            click.echo(f"Forwarding {address}:{local} -> task {name} port {pair.remote}")
        await asyncio.Event().wait()


def pair_of(text: str, task: Task) -> Pair:
    """`8080`, `9000:8080`, `:http`. UsageError when it is none of those."""
    before, colon, after = text.partition(":")
    remote = _remote(after if colon else before, task)
    if not colon:
        return Pair(remote, remote)
    if before and not _is_port(before, least=0):
        raise click.UsageError(f"{before!r} in {text} is no port: 0 to 65535")
    return Pair(int(before or 0), remote)


def _remote(text: str, task: Task) -> int:
    if _is_port(text):
        return int(text)
    numbers = {one.name: one.port for one in task.status.ports if one.protocol == "TCP"}
    if text in numbers:
        return numbers[text]
    known = f"it has {', '.join(sorted(numbers))}" if numbers else "it has none by name"
    raise click.UsageError(f"{text!r} is neither a port (1 to 65535) nor the name of a TCP port of the Task: {known}")


def _is_port(text: str, least: int = 1) -> bool:
    return text.isascii() and text.isdigit() and least <= int(text) <= 65535


@dataclass
class Carrier:
    """Carries connections to one port of a Task. What goes wrong with one of them is said, and the others go on."""

    session: Session
    name: str
    port: int

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        path = task_stream(self.session.namespace, self.name, "portforward")
        try:
            async with self.session.api.websocket(path, [("port", str(self.port))]) as socket:
                await _both_ways(socket, reader, writer)
        except ApiError as error:
            click.echo(f"port {self.port}: {explain(error)}", err=True)
        except OSError:
            pass  # whoever connected has gone
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _both_ways(
    socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    helpers = [asyncio.create_task(_send(socket, reader)), asyncio.create_task(keep_alive(socket))]
    try:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                writer.write(message.data)
                await writer.drain()
            elif message.type is aiohttp.WSMsgType.TEXT and message.data == PORT_END and writer.can_write_eof():
                writer.write_eof()
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


async def _send(socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader) -> None:
    try:
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(data)
        await socket.send_str(PORT_END)
    except OSError:
        await socket.close()  # whoever connected broke off
