"""A call with a stream of messages, one way or both. It begins when it is first read from or written to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from iris_runtimes.rpc.errors import RpcError, StatusCode
from iris_runtimes.rpc.stream import Stream


class _Eof:
    def __repr__(self) -> str:
        return "EOF"


EOF: Final = _Eof()
"""What `read` gives when the server has sent all and the call ended well."""


class Call:
    """Iterate over it for the messages, or `read` them. RpcError when it fails."""

    def __init__(self, begin: Callable[[], Awaitable[Stream]], decode: Callable[[bytes], Any]) -> None:
        self._begin, self._decode = begin, decode
        self._stream: Stream | None = None
        self._cancelled = False

    async def read(self) -> Any:
        """The next message, or EOF."""
        stream = await self._begun()
        while not stream.messages:
            stream.check()
            if stream.end is not None:
                return EOF
            await stream.news()
        return self._decode(stream.take())

    async def write(self, message: Any) -> None:
        """Send a message."""
        (await self._begun()).send(message.SerializeToString(), last=False)

    def cancel(self) -> None:
        """Let go of it; the server is told."""
        self._cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> Any:
        message = await self.read()
        if message is EOF:
            raise StopAsyncIteration
        return message

    def __del__(self) -> None:
        self.cancel()

    async def _begun(self) -> Stream:
        if self._cancelled:
            raise RpcError(StatusCode.CANCELLED, "the caller went away")
        if self._stream is None:
            self._stream = await self._begin()
        return self._stream
