"""One call on its connection: the messages that came, the bytes that wait to go, how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import unquote

from iris_runtimes.rpc.errors import RpcError, StatusCode, status_of
from iris_runtimes.rpc.frames import CANCEL, ENHANCE_YOUR_CALM, REFUSED_STREAM
from iris_runtimes.rpc.hpack import Header

RECEIVE_WINDOW = 2**20
LARGEST_MESSAGE_BYTES = 16 * 2**20
_PREFIX_BYTES = 5
# Of a stream that nobody reads, no more than these come; a message is let come whole, whatever its size.
_MESSAGES_WAITING = 16
_RESETS = {
    CANCEL: StatusCode.CANCELLED,
    REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
}


class Sends(Protocol):
    """What a stream needs of its connection."""

    def flush(self, stream: Stream) -> None:
        """Send what may be sent of `stream.waiting`."""
        ...

    def more(self, stream: Stream, size: int) -> None:
        """Let so many bytes more come."""
        ...

    def forget(self, stream: Stream, *, reset: bool) -> None:
        """It is over; `reset`: the server is to know that nobody listens."""
        ...


class Stream:
    """`end`: None while it goes on."""

    __slots__ = (
        "_buffer", "_connection", "_news", "_owed", "end", "ends", "id", "messages", "timer", "waiting", "window",
    )  # fmt: skip

    def __init__(self, connection: Sends, number: int, window: int) -> None:
        self.id, self.window = number, window
        self.messages: deque[bytes] = deque()
        self.waiting, self.ends = bytearray(), False  # bytes to be sent, and whether they are the last
        self.end: RpcError | bool | None = None  # True: it ended well
        self.timer: asyncio.TimerHandle | None = None
        self._connection = connection
        self._buffer = bytearray()
        self._news: asyncio.Future[None] | None = None
        self._owed = 0

    def send(self, message: bytes, *, last: bool) -> None:
        """Send a message, now or when there is room. Raises RpcError when the call is over."""
        self.check()
        self.waiting += framed(message)
        self.ends = last
        self._connection.flush(self)

    def check(self) -> None:
        """RpcError when the call has failed."""
        if isinstance(self.end, RpcError):
            raise self.end

    async def news(self) -> None:
        """Until something came. One at a time may wait."""
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def take(self) -> bytes:
        """The next message."""
        message = self.messages.popleft()
        self._let_more_come()
        return message

    def cancel(self, code: StatusCode = StatusCode.CANCELLED, details: str = "the caller went away") -> None:
        """Nobody waits for it any more."""
        if self.end is None:
            self._finish(RpcError(code, details), reset=True)

    def fail(self, code: StatusCode, details: str) -> None:
        """The connection is gone."""
        if self.end is None:
            self._finish(RpcError(code, details))

    # What the connection tells.

    def on_data(self, data: bytes, *, ended: bool) -> None:
        """Bytes of messages."""
        self._buffer += data
        self._owed += len(data)
        while len(self._buffer) >= _PREFIX_BYTES:
            packed, size = self._buffer[0], int.from_bytes(self._buffer[1:_PREFIX_BYTES])
            if packed or size > LARGEST_MESSAGE_BYTES:
                what = "a compressed message" if packed else f"a message of {size} bytes"
                self.cancel(StatusCode.RESOURCE_EXHAUSTED, f"containerd sent {what}")
                return
            if len(self._buffer) < _PREFIX_BYTES + size:
                break
            self.messages.append(bytes(self._buffer[_PREFIX_BYTES : _PREFIX_BYTES + size]))
            del self._buffer[: _PREFIX_BYTES + size]
        self._let_more_come()
        if ended:
            self.fail(StatusCode.INTERNAL, "the answer ended without a status")
        self._wake()

    def on_headers(self, headers: Iterable[Header], *, ended: bool) -> None:
        """The head of the answer, or with `ended` its status."""
        found = dict(headers)
        if "grpc-status" in found:
            code = status_of(found["grpc-status"])
            words = unquote(found.get("grpc-message", ""))
            self._finish(True if code is StatusCode.OK else RpcError(code, words), reset=not ended)
        elif found.get(":status", "200") != "200":
            self._finish(RpcError(StatusCode.UNKNOWN, f"HTTP status {found[':status']}"), reset=not ended)
        elif ended:
            self.fail(StatusCode.INTERNAL, "the answer ended without a status")

    def on_reset(self, number: int) -> None:
        """The server gave it up."""
        self.fail(_RESETS.get(number, StatusCode.INTERNAL), f"the server reset the call (HTTP/2 error {number})")

    def _finish(self, end: RpcError | bool, *, reset: bool = False) -> None:
        if self.end is not None:
            return
        self.end = end
        self.waiting.clear()
        if self.timer is not None:
            self.timer.cancel()
        self._connection.forget(self, reset=reset)
        self._wake()

    def _let_more_come(self) -> None:
        if self._owed >= RECEIVE_WINDOW // 4 and len(self.messages) < _MESSAGES_WAITING and self.end is None:
            self._connection.more(self, self._owed)
            self._owed = 0

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def framed(message: bytes) -> bytes:
    """As gRPC sends it: not compressed, its length, itself."""
    return b"\0" + len(message).to_bytes(4) + message
