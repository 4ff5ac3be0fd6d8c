"""Our client and grpcio's server, which know nothing of each other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty

from iris_runtimes import rpc
from iris_runtimes.containerd.proto import (
    content_pb2,
    content_pb2_grpc,
    events_service_pb2,
    streaming_pb2,
    streaming_pb2_grpc,
    version_pb2,
    version_pb2_grpc,
)

pytestmark = pytest.mark.asyncio

Answer = Callable[[grpc.aio.ServicerContext], Awaitable[Any]]


class Server:
    """`version` answers the unary call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version: Answer = self._one
        self.cancelled = asyncio.Event()
        self.sent = 0
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = grpc.aio.server()
        version_pb2_grpc.add_VersionServicer_to_server(self, self._server)
        content_pb2_grpc.add_ContentServicer_to_server(self, self._server)
        streaming_pb2_grpc.add_StreamingServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _one(self, _context: grpc.aio.ServicerContext) -> Any:
        return version_pb2.VersionResponse(version="1")

    async def Version(self, request: Any, context: grpc.aio.ServicerContext) -> Any:  # noqa: N802 the proto's name
        try:
            return await self.version(context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def Read(self, request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:  # noqa: N802 the proto's name
        for _ in range(request.size):
            self.sent += 1
            yield content_pb2.ReadContentResponse(data=b"x" * request.offset)
        if request.digest:
            await context.abort(grpc.StatusCode.DATA_LOSS, request.digest)

    async def Stream(self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:  # noqa: N802 the proto's name
        async for one in requests:
            yield AnyMessage(type_url=one.type_url, value=one.value[::-1])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    one = Server(tmp_path / "s")
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[rpc.Channel]:
    one = rpc.Channel(str(server.path))
    yield one
    await one.close()


def version(channel: rpc.Channel, **options: Any) -> Any:
    return rpc.Service(channel, version_pb2, "Version").Version(Empty(), **options)


def read(channel: rpc.Channel, pieces: int, size: int, failure: str = "") -> Any:
    request = content_pb2.ReadContentRequest(digest=failure, offset=size, size=pieces)
    return rpc.Service(channel, content_pb2, "Content").Read(request)


async def failure(call: Awaitable[Any]) -> tuple[rpc.StatusCode, str]:
    with pytest.raises(rpc.RpcError) as error:
        await call
    return error.value.code(), error.value.details()


class TestOneMessage:
    async def test_many_at_once_with_what_is_said_of_each(self, server: Server, channel: rpc.Channel) -> None:
        async def told(context: grpc.aio.ServicerContext) -> Any:
            found = dict(context.invocation_metadata() or ())
            return version_pb2.VersionResponse(version=str(found["who"]))

        server.version = told
        answers = await asyncio.gather(*(version(channel, metadata=(("who", str(n)),), timeout=9) for n in range(100)))
        assert [one.version for one in answers] == [str(number) for number in range(100)]

    @pytest.mark.parametrize("size", [0, 65_530, 70_000, 5_000_000])
    async def test_of_any_size_both_ways(self, server: Server, channel: rpc.Channel, size: int) -> None:
        async def long(context: grpc.aio.ServicerContext) -> Any:
            return version_pb2.VersionResponse(version="v" * size)

        server.version = long
        assert len((await version(channel, timeout=30)).version) == size

    async def test_a_failure_has_code_and_words(self, server: Server, channel: rpc.Channel) -> None:
        async def fails(context: grpc.aio.ServicerContext) -> Any:
            await context.abort(grpc.StatusCode.NOT_FOUND, 'container "ä b" % not found')

        server.version = fails
        assert await failure(version(channel)) == (rpc.StatusCode.NOT_FOUND, 'container "ä b" % not found')

    async def test_no_such_method(self, channel: rpc.Channel) -> None:
        unknown = rpc.Service(channel, events_service_pb2, "Events").Publish(events_service_pb2.PublishRequest())
        assert (await failure(unknown))[0] is rpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(AttributeError, match="has no method Such"):
            rpc.Service(channel, version_pb2, "Version").Such(Empty())

    async def test_the_server_is_told_of_the_deadline_and_of_who_goes_away(
        self, server: Server, channel: rpc.Channel
    ) -> None:
        async def hangs(context: grpc.aio.ServicerContext) -> Any:
            await asyncio.sleep(60)

        server.version = hangs
        code, words = await failure(version(channel, timeout=0.05))
        assert (code, words) == (rpc.StatusCode.DEADLINE_EXCEEDED, "no answer within 0.05s")
        await asyncio.wait_for(server.cancelled.wait(), 10)
        server.cancelled.clear()
        call = asyncio.create_task(version(channel))
        await asyncio.sleep(0.05)
        call.cancel()
        await asyncio.wait_for(server.cancelled.wait(), 10)


class TestStreams:
    @pytest.mark.parametrize(("pieces", "size"), [(0, 0), (3, 10), (200, 100_000), (2, 3_000_000)])
    async def test_all_of_it_comes(self, channel: rpc.Channel, pieces: int, size: int) -> None:
        assert [len(one.data) async for one in read(channel, pieces, size)] == [size] * pieces

    async def test_what_nobody_reads_does_not_come(self, server: Server, channel: rpc.Channel) -> None:
        call = read(channel, 10_000, 10_000)
        await call.read()
        await asyncio.sleep(0.3)
        assert 1 <= server.sent < 2_000
        call.cancel()
        assert (await failure(call.read()))[0] is rpc.StatusCode.CANCELLED

    async def test_a_failure_comes_after_what_was_sent(self, channel: rpc.Channel) -> None:
        call = read(channel, 2, 5, failure="sha256:1")
        assert [len((await call.read()).data) for _ in range(2)] == [5, 5]
        assert await failure(call.read()) == (rpc.StatusCode.DATA_LOSS, "sha256:1")

    async def test_both_ways(self, channel: rpc.Channel) -> None:
        call = rpc.Service(channel, streaming_pb2, "Streaming").Stream()
        for text in (b"abc", b"x" * 200_000 + b"y"):
            await call.write(AnyMessage(type_url="t", value=text))
            assert (await call.read()).value == text[::-1]
        call.cancel()


class TestConnection:
    async def test_nobody_there_is_told_at_once_and_later_it_works(self, tmp_path: Path) -> None:
        server, channel = Server(tmp_path / "s"), rpc.Channel(str(tmp_path / "s"))
        code, words = await failure(version(channel))
        assert code is rpc.StatusCode.UNAVAILABLE
        assert "No such file" in words
        await server.start()
        assert (await version(channel)).version == "1"
        await channel.close()
        await server.stop()
        assert (await failure(version(channel)))[0] is rpc.StatusCode.UNAVAILABLE

    async def test_a_server_that_goes_takes_its_calls_with_it_and_the_next_one_is_found(
        self, server: Server, channel: rpc.Channel
    ) -> None:
        async def hangs(context: grpc.aio.ServicerContext) -> Any:
            await asyncio.sleep(60)

        server.version = hangs
        call = asyncio.create_task(version(channel))
        await asyncio.sleep(0.05)
        await server.stop()
        assert (await failure(call))[0] in (rpc.StatusCode.UNAVAILABLE, rpc.StatusCode.CANCELLED)
        with contextlib.suppress(FileNotFoundError):
            server.path.unlink()
        server.version = server._one
        await server.start()
        assert (await version(channel)).version == "1"
