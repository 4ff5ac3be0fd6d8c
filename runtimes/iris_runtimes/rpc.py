"""gRPC's client side over a unix socket, by grpclib: services by their descriptors, one kind of error.

grpclib rather than grpcio, whose core costs every agent 12 MB and, with its threads, twice the processor time of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

from google.protobuf import message_factory
from grpclib.client import Channel as _Channel
from grpclib.client import Stream
from grpclib.const import Cardinality
from grpclib.const import Status as StatusCode
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

__all__ = ["EOF", "Call", "Channel", "RpcError", "Service", "StatusCode"]

Metadata = Sequence[tuple[str, str]]
_CONNECT_SECONDS = 20.0


class RpcError(Exception):
    """A call that failed, by the server's word or by the connection's end."""

    def __init__(self, code: StatusCode, details: str = "") -> None:
        super().__init__(f"{code.name}: {details}")
        self._code, self._details = code, details

    def code(self) -> StatusCode:
        """Never OK."""
        return self._code

    def details(self) -> str:
        """The server's words, or ours of the connection; may be empty."""
        return self._details


class _Eof:
    def __repr__(self) -> str:
        return "EOF"


EOF: Final = _Eof()
"""What `read` gives when the server has sent all and the call ended well."""


class Channel:
    """`socket`: the unix socket's path. Connected at the first call, and again when the connection broke."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._channel: _Channel | None = None
        self._closed = False

    async def close(self) -> None:
        """Calls under way fail as UNAVAILABLE."""
        self._closed = True
        if self._channel is not None:
            self._channel.close()

    def request(
        self, path: str, kind: Cardinality, answer: type[Any], metadata: Metadata, timeout: float | None
    ) -> Stream[Any, Any]:
        """A call that has not begun. RpcError when the channel was closed."""
        if self._closed:
            raise RpcError(StatusCode.UNAVAILABLE, "the channel was closed")
        if self._channel is None:
            self._channel = _Channel(path=self.socket)
        return self._channel.request(path, kind, object, answer, timeout=timeout, metadata=metadata)


class Service:
    """`Service(channel, tasks_pb2, "Tasks").Start(request, metadata=..., timeout=seconds)`.

    A method whose answer is one message is a coroutine function; of the others, a call is a Call, which takes the requests by
    `write` when they are a stream too.
    """

    def __init__(self, channel: Channel, module: Any, name: str) -> None:
        self._channel = channel
        self._service = module.DESCRIPTOR.services_by_name[name]

    def __getattr__(self, name: str) -> Any:
        """A method, made when it is first asked for: a service has many, and who makes one for a moment calls two."""
        method = self._service.methods_by_name.get(name)
        if method is None:
            raise AttributeError(f"{self._service.full_name} has no method {name}")
        answer = message_factory.GetMessageClass(method.output_type)
        path = f"/{self._service.full_name}/{name}"
        made = (
            _streaming(self._channel, path, Cardinality.STREAM_STREAM, answer)
            if method.client_streaming
            else _streaming(self._channel, path, Cardinality.UNARY_STREAM, answer)
            if method.server_streaming
            else _unary(self._channel, path, answer)
        )
        setattr(self, name, made)
        return made


class Call:
    """A call with a stream of messages, one way or both. Iterate over it for the messages, or `read` them. RpcError when it
    fails. It begins when it is first read from or written to."""

    def __init__(
        self,
        begin: Callable[[], Stream[Any, Any]],
        errors: Callable[[], AbstractAsyncContextManager[None]],
        request: Any,
    ) -> None:
        """`errors`: makes them ours. `request`: its only message; None: they follow by `write`."""
        self._begin, self._errors, self._request = begin, errors, request
        self._stream: Stream[Any, Any] | None = None
        self._begun = asyncio.Lock()
        self._over = False
        self._closing: asyncio.Task[None] | None = None

    async def read(self) -> Any:
        """The next message, or EOF."""
        async with self._errors():
            stream = await self._open()
            message = await stream.recv_message()
            if message is None:
                await self._end(None)
                return EOF
            return message

    async def write(self, message: Any) -> None:
        """Send a message."""
        async with self._errors():
            await (await self._open()).send_message(message)

    def cancel(self) -> None:
        """Let go of it; the server is told."""
        if not self._over and self._stream is not None and self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end(asyncio.CancelledError()))
        self._over = True

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> Any:
        message = await self.read()
        if message is EOF:
            raise StopAsyncIteration
        return message

    async def _open(self) -> Stream[Any, Any]:
        async with self._begun:
            if self._over:
                raise RpcError(StatusCode.CANCELLED, "the caller went away")
            if self._stream is None:
                stream = await self._begin().__aenter__()
                await stream.send_request()
                if self._request is not None:
                    await stream.send_message(self._request, end=True)
                self._stream = stream
            return self._stream

    async def _end(self, why: BaseException | None) -> None:
        self._over = True
        stream = self._stream
        if stream is not None:
            with suppress(asyncio.CancelledError):
                await stream.__aexit__(type(why) if why else None, why, None)


def _unary(channel: Channel, path: str, answer: type[Any]) -> Callable[..., Awaitable[Any]]:
    async def call(request: Any, *, metadata: Metadata = (), timeout: float | None = None) -> Any:
        async with (
            _errors(channel.socket, timeout),
            channel.request(path, Cardinality.UNARY_UNARY, answer, metadata, timeout) as stream,
        ):
            await stream.send_message(request, end=True)
            reply = await stream.recv_message()
        if reply is None:
            raise RpcError(StatusCode.INTERNAL, "an answer without a message")
        return reply

    return call


def _streaming(channel: Channel, path: str, kind: Cardinality, answer: type[Any]) -> Callable[..., Call]:
    def call(request: Any = None, *, metadata: Metadata = (), timeout: float | None = None) -> Call:
        return Call(
            lambda: channel.request(path, kind, answer, metadata, timeout),
            lambda: _errors(channel.socket, timeout),
            request,
        )

    return call


@asynccontextmanager
async def _errors(socket: str, timeout: float | None) -> AsyncIterator[None]:
    try:
        yield
    except GRPCError as error:
        raise RpcError(error.status, error.message or "") from error
    except StreamTerminatedError as error:
        raise RpcError(StatusCode.UNAVAILABLE, str(error)) from error
    except ProtocolError as error:
        raise RpcError(StatusCode.INTERNAL, str(error)) from error
    except TimeoutError as error:
        raise RpcError(StatusCode.DEADLINE_EXCEEDED, f"no answer within {timeout:g}s") from error
    except OSError as error:
        raise RpcError(StatusCode.UNAVAILABLE, f"connecting to {socket}: {error.strerror or error}") from error
