"""An HTTP/2 connection: frames in and out, streams by number, windows."""

from __future__ import annotations

import asyncio

from iris_runtimes.rpc import frames
from iris_runtimes.rpc.errors import ProtocolError, StatusCode
from iris_runtimes.rpc.hpack import Decoder
from iris_runtimes.rpc.stream import RECEIVE_WINDOW, Stream, framed

_CONNECTION_WINDOW = 16 * 2**20
_LAST_STREAM = 2**31 - 1
_ANSWER_SECONDS = 0.5  # a server that wants a sign of life waits for 20


class Connection(asyncio.Protocol):
    """`takes_calls`: whether new calls may be made on it."""

    def __init__(self) -> None:
        self.takes_calls = False
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._decoder = Decoder()
        self._buffer = bytearray()
        self._block: tuple[int, bool, bytearray] | None = None  # a header block that goes on
        self._window, self._stream_window, self._frame_bytes = frames.WINDOW, frames.WINDOW, frames.FRAME_BYTES
        self._owed = 0
        self._answers = bytearray()  # to pings
        self._answering: asyncio.TimerHandle | None = None
        self._stuck: dict[int, Stream] = {}  # streams with bytes for which there was no room
        self._handlers = {
            frames.DATA: self._on_data,
            frames.HEADERS: self._on_headers,
            frames.CONTINUATION: self._on_continuation,
            frames.RST_STREAM: self._on_reset,
            frames.SETTINGS: self._on_settings,
            frames.PING: self._on_ping,
            frames.GOAWAY: self._on_goaway,
            frames.WINDOW_UPDATE: self._on_window,
        }

    def open(self, head: bytes, message: bytes | None, *, last: bool) -> Stream:
        """Begin a call by its header block. `message`: its first; `last`: and only one."""
        stream = Stream(self, self._next, self._stream_window)
        self._streams[stream.id] = stream
        self._next += 2
        if self._next > _LAST_STREAM:
            self.takes_calls = False
        begin = frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, head)
        data = None if message is None else framed(message)
        if data is not None and len(data) <= min(self._window, stream.window, self._frame_bytes):
            # Nearly every call: in one write.
            self._window -= len(data)
            stream.window -= len(data)
            begin += frames.frame(frames.DATA, frames.END_STREAM if last else 0, stream.id, data)
            self._write(begin)
            return stream
        self._write(begin)
        if message is not None:
            stream.send(message, last=last)
        return stream

    def close(self, words: str) -> None:
        """End it, and with it all its calls."""
        self.takes_calls = False
        if self._answering is not None:
            self._answering.cancel()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
        for stream in list(self._streams.values()):
            stream.fail(StatusCode.UNAVAILABLE, words)

    # stream.Sends

    def flush(self, stream: Stream) -> None:
        while stream.waiting:
            size = min(len(stream.waiting), self._window, stream.window, self._frame_bytes)
            if size <= 0:
                self._stuck[stream.id] = stream
                return
            piece = bytes(stream.waiting[:size])
            del stream.waiting[:size]
            self._window -= size
            stream.window -= size
            flags = frames.END_STREAM if stream.ends and not stream.waiting else 0
            self._write(frames.frame(frames.DATA, flags, stream.id, piece))
        self._stuck.pop(stream.id, None)

    def more(self, stream: Stream, size: int) -> None:
        self._write(frames.window_update(stream.id, size))

    def forget(self, stream: Stream, *, reset: bool) -> None:
        self._streams.pop(stream.id, None)
        self._stuck.pop(stream.id, None)
        if reset:
            self._write(frames.frame(frames.RST_STREAM, 0, stream.id, frames.CANCEL.to_bytes(4)))
        if not self._streams and not self.takes_calls:
            self.close("")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._loop, self.takes_calls = transport, asyncio.get_running_loop(), True
        hello = frames.settings({frames.ENABLE_PUSH: 0, frames.INITIAL_WINDOW_SIZE: RECEIVE_WINDOW})
        self._write(frames.PREFACE + hello + frames.window_update(0, _CONNECTION_WINDOW - frames.WINDOW))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= frames.HEAD_BYTES:
                end = at + frames.HEAD_BYTES + int.from_bytes(buffer[at : at + 3])
                if len(buffer) < end:
                    break
                number = int.from_bytes(buffer[at + 5 : at + 9]) & 0x7FFFFFFF
                handle = self._handlers.get(buffer[at + 3])
                if handle is not None:  # what is not known is to be passed over
                    handle(buffer[at + 4], number, bytes(buffer[at + frames.HEAD_BYTES : end]))
                at = end
        except ProtocolError as error:
            self.close(str(error))
        del buffer[:at]

    def connection_lost(self, error: Exception | None) -> None:
        self.close(f"the connection was closed{f': {error}' if error else ''}")

    # One method a kind of frame: flags, stream, payload.

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        self._owed += len(payload)
        if self._owed >= _CONNECTION_WINDOW // 4:
            self._write(frames.window_update(0, self._owed))
            self._owed = 0
        stream = self._streams.get(number)
        if stream is not None:
            stream.on_data(frames.body(flags & frames.PADDED, payload), ended=bool(flags & frames.END_STREAM))

    def _on_headers(self, flags: int, number: int, payload: bytes) -> None:
        self._block = number, bool(flags & frames.END_STREAM), bytearray(frames.body(flags, payload))
        self._on_block(flags)

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ProtocolError("headers go on that have not begun")
        self._block[2].extend(payload)
        self._on_block(flags)

    def _on_block(self, flags: int) -> None:
        if self._block is None or not flags & frames.END_HEADERS:
            return
        (number, ended, block), self._block = self._block, None
        headers = self._decoder.decode(bytes(block))  # of a call that nobody waits for, too: the table goes on
        stream = self._streams.get(number)
        if stream is not None:
            stream.on_headers(headers, ended=ended)

    def _on_reset(self, _flags: int, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            stream.on_reset(int.from_bytes(payload))

    def _on_settings(self, flags: int, _number: int, payload: bytes) -> None:
        if flags & frames.ACK:
            return
        for setting, value in frames.read_settings(payload):
            if setting == frames.INITIAL_WINDOW_SIZE:
                for stream in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
            elif setting == frames.MAX_FRAME_SIZE:
                self._frame_bytes = value
        self._write(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._unstick()

    def _on_ping(self, flags: int, _number: int, payload: bytes) -> None:
        if not flags & frames.ACK:
            # grpc-go sends one with nearly every call, to measure what the way carries: the answer goes with the next call.
            self._answers += frames.frame(frames.PING, frames.ACK, 0, payload)
            if self._answering is None and self._loop is not None:
                self._answering = self._loop.call_later(_ANSWER_SECONDS, self._answer_now)

    def _on_goaway(self, _flags: int, _number: int, payload: bytes) -> None:
        """The server stops. Calls that it has taken it carries out."""
        self.takes_calls = False
        last = int.from_bytes(payload[:4]) & 0x7FFFFFFF
        for stream in [one for number, one in self._streams.items() if number > last]:
            stream.fail(StatusCode.UNAVAILABLE, "the server is ending")

    def _on_window(self, _flags: int, number: int, payload: bytes) -> None:
        size = int.from_bytes(payload) & 0x7FFFFFFF
        if number == 0:
            self._window += size
        elif (stream := self._streams.get(number)) is not None:
            stream.window += size
        self._unstick()

    def _unstick(self) -> None:
        for stream in list(self._stuck.values()):
            self.flush(stream)

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._answers:
            data = bytes(self._answers) + data
            self._answers.clear()
        self._transport.write(data)

    def _answer_now(self) -> None:
        self._answering = None
        if self._answers:
            self._write(b"")
