"""The connection: one gRPC channel, the namespace on every call, transport failures as RuntimeUnavailable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc

from iris_runtimes.errors import NodeFault, RuntimeUnavailable

T = TypeVar("T")
_NAMESPACE = "containerd-namespace"
_CALL_SECONDS = 60.0
_SETTLE_SECONDS = 30.0
_SETTLING = (  # containerd's words, and how long to leave it alone
    (re.compile(r"ttrpc: closed|container with given ID already exists$"), 0.1),
    (re.compile(r"mkdir .*/io\.containerd\.runtime\.v2\.task/.*: file exists$"), 6.0),
)
_OPTIONS = [
    ("grpc.default_authority", "localhost"),  # containerd's server refuses the escaped socket path as an authority
    ("grpc.max_receive_message_length", 16 * 2**20),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.initial_reconnect_backoff_ms", 100),
]


def open_channel(socket: str) -> grpc.aio.Channel:
    """A channel to containerd's socket."""
    return grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS)


def in_namespace(namespace: str) -> tuple[tuple[str, str], ...]:
    """Call metadata."""
    return ((_NAMESPACE, namespace),)


def status_of(error: grpc.aio.AioRpcError) -> tuple[grpc.StatusCode, str]:
    """Code and words of a failed call."""
    return error.code(), error.details() or ""


def is_not_found(error: grpc.aio.AioRpcError) -> bool:
    """Whether the thing is gone."""
    return error.code() is grpc.StatusCode.NOT_FOUND


def translate(error: grpc.aio.AioRpcError) -> Exception:
    """What a failed call means when its caller knows no better."""
    code, words = status_of(error)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return RuntimeUnavailable(f"containerd does not answer: {words.rsplit(' error: ', 1)[-1]}")
    return NodeFault(f"containerd: {words or code.name}")


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turns gRPC errors into ours."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise translate(error) from error


async def unless_gone(call: Awaitable[T]) -> T | None:
    """The call's answer, None when the thing it is about is gone."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if is_not_found(error):
            return None
        raise


def call_options(namespace: str, seconds: float = _CALL_SECONDS) -> dict[str, Any]:
    """Keyword arguments of every unary call."""
    return {"metadata": in_namespace(namespace), "timeout": seconds}


async def settled(call: Callable[[], Awaitable[T]]) -> T:
    """The call's answer, tried again while containerd itself is still clearing up.

    After a shim that died; and after a client that died while its task was being made: containerd (2.2.9) then gives the
    creation up and clears away for up to five seconds, in which another creation would get hold of the dying shim; and it
    leaves runc's half behind, until the next creation stumbles over it and clears that away.
    """
    end = asyncio.get_running_loop().time() + _SETTLE_SECONDS
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            words = error.details() or ""
            pause = next((seconds for signs, seconds in _SETTLING if signs.search(words)), None)
            if pause is None or asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(pause)
