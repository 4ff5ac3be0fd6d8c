"""The connection: one gRPC channel, the namespace on every call, transport failures as RuntimeUnavailable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from iris_runtimes import rpc
from iris_runtimes.errors import NodeFault, RuntimeUnavailable

T = TypeVar("T")
_NAMESPACE = "containerd-namespace"
_CALL_SECONDS = 60.0
_SETTLE_SECONDS = 30.0
_SETTLING = (  # containerd's words, and how long to leave it alone
    (re.compile(r"ttrpc: closed|container with given ID already exists$"), 0.1),
    (re.compile(r"mkdir .*/io\.containerd\.runtime\.v2\.task/.*: file exists$"), 6.0),
)


def open_channel(socket: str) -> rpc.Channel:
    """A channel to containerd's socket, in use in one event loop."""
    return rpc.Channel(socket)


def in_namespace(namespace: str) -> tuple[tuple[str, str], ...]:
    """Call metadata."""
    return ((_NAMESPACE, namespace),)


def status_of(error: rpc.RpcError) -> tuple[rpc.StatusCode, str]:
    """Code and words of a failed call."""
    return error.code(), error.details()


def is_not_found(error: rpc.RpcError) -> bool:
    """Whether the thing is gone."""
    return error.code() is rpc.StatusCode.NOT_FOUND


def translate(error: rpc.RpcError) -> Exception:
    """What a failed call means when its caller knows no better."""
    code, words = status_of(error)
    if code in (rpc.StatusCode.UNAVAILABLE, rpc.StatusCode.DEADLINE_EXCEEDED, rpc.StatusCode.CANCELLED):
        return RuntimeUnavailable(f"containerd does not answer: {words.rsplit(' error: ', 1)[-1]}")
    return NodeFault(f"containerd: {words or code.name}")


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turns gRPC errors into ours."""
    try:
        yield
    except rpc.RpcError as error:
        raise translate(error) from error


async def unless_gone(call: Awaitable[T]) -> T | None:
    """The call's answer, None when the thing it is about is gone."""
    try:
        return await call
    except rpc.RpcError as error:
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
        except rpc.RpcError as error:
            words = error.details() or ""
            pause = next((seconds for signs, seconds in _SETTLING if signs.search(words)), None)
            if pause is None or asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(pause)
