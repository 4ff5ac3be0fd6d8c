"""Asks one question: a command in the sandbox, an HTTP GET or a TCP connection to the node's address."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import aiohttp

from iris_operator.agent.http_get import HttpGetter
from iris_operator.agent.node.ports import resolve
from iris_operator.agent.probes.verdict import Answer
from iris_operator.agent.words import last_line, one_line, short
from iris_operator.api.probe import ExecAction, HttpGetAction, Probe, TcpSocketAction
from iris_runtimes.errors import RuntimeFault
from iris_runtimes.execution import ExecRequest
from iris_runtimes.lifecycle import run_command
from iris_runtimes.protocol import Runtime

_LOOPBACK = "127.0.0.1"
_MAX_OUTPUT_BYTES = 4096
_MAX_COMMAND = 80


@dataclass(frozen=True)
class Address:
    """Where a running attempt is asked. `host_ip` may be empty: the loopback address then."""

    sandbox_id: str
    host_ip: str
    ports: Mapping[str, int]


class Asker:
    """Made in the event loop that it is used in; `close` it."""

    def __init__(self, runtime: Runtime, http: HttpGetter | None = None) -> None:
        self._runtime, self._http = runtime, http or HttpGetter()

    async def ask(self, probe: Probe, address: Address) -> Answer | None:
        """The answer. None when the platform couldn't ask, such as while the runtime restarts: that says nothing."""
        if probe.exec is not None:
            return await self._exec(probe.exec, address, probe.timeout_seconds)
        if probe.http_get is not None:
            return await self.http_get(probe.http_get, address, probe.timeout_seconds)
        assert probe.tcp_socket is not None
        return await self._tcp(probe.tcp_socket, address, probe.timeout_seconds)

    async def close(self) -> None:
        """Let go of the HTTP client."""
        await self._http.close()

    async def _exec(self, action: ExecAction, address: Address, timeout_seconds: float) -> Answer | None:
        command = short(shlex.join(action.command), _MAX_COMMAND)
        request = ExecRequest(tuple(action.command))
        try:
            done = await run_command(
                self._runtime, address.sandbox_id, request, timeout_seconds, max_output_bytes=_MAX_OUTPUT_BYTES
            )
        except RuntimeFault as fault:
            # A sandbox that has just ended is the user's fault by its class, and no failure of the probe.
            missing = fault.reason in ("CommandNotFound", "CommandNotExecutable")
            return Answer(False, f"`{command}`: {fault}") if missing else None
        said = last_line(done.output)
        if done.exit_code is None:
            return Answer(False, _with(f"`{command}` took longer than {timeout_seconds:g}s and was killed", said))
        return Answer(done.exit_code == 0, _with(f"`{command}` exit code {done.exit_code}", said))

    async def http_get(self, action: HttpGetAction, address: Address, timeout_seconds: float) -> Answer:
        """A GET; a status from 200 to 399 is success."""
        port = resolve(action.port, address.ports)
        path = action.path if action.path.startswith("/") else f"/{action.path}"
        what = f"GET :{action.port if port is None else port}{short(path, _MAX_COMMAND)}"
        if port is None:
            return Answer(False, f"{what} there is no such port")

        async def get() -> Answer:
            answer = await self._http.get(action, address.host_ip, port)
            return Answer(answer.good, one_line(f"{what} {answer.status} {answer.reason}"))

        return await _within(timeout_seconds, what, get)

    async def _tcp(self, action: TcpSocketAction, address: Address, timeout_seconds: float) -> Answer:
        port = resolve(action.port, address.ports)
        what = f"TCP :{action.port if port is None else port}"
        if port is None:
            return Answer(False, f"{what} there is no such port")

        async def connect() -> Answer:
            host = address.host_ip or _LOOPBACK
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as one:
                one.setblocking(False)
                await asyncio.get_running_loop().sock_connect(one, (host, port))
            return Answer(True, what)

        return await _within(timeout_seconds, what, connect)


async def _within(timeout_seconds: float, what: str, question: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await question()
    except TimeoutError:
        return Answer(False, f"{what} no answer within {timeout_seconds:g}s")
    except aiohttp.ClientConnectorError as error:
        return Answer(False, one_line(f"{what} {_why(error.os_error)}"))
    except OSError as error:
        return Answer(False, one_line(f"{what} {_why(error)}"))
    except (aiohttp.ClientError, ValueError) as error:  # ValueError: a header or path that can't be sent
        return Answer(False, one_line(f"{what} {error or type(error).__name__}"))


def _why(error: OSError) -> str:
    """The kernel's words: asyncio's own are of calls and addresses. TLS has numbers of its own."""
    if error.errno is None or isinstance(error, ssl.SSLError):
        return str(error)
    return os.strerror(error.errno)


def _with(words: str, said: str) -> str:
    return f"{words}: {said}" if said else words
