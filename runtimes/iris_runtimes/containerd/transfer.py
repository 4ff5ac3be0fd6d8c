"""Pulls by containerd's transfer service: it fetches and unpacks; we watch its progress and answer for credentials."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import in_namespace
from iris_runtimes.containerd.proto import streaming_pb2, transfer_pb2, transfer_service_pb2, types_pb2
from iris_runtimes.containerd.pull_errors import pull_error
from iris_runtimes.errors import ImagePullFailed, ImageUnauthorized
from iris_runtimes.protocol import Credentials, PullProgress

OnProgress = Callable[[PullProgress], None]
# Long enough to unpack one huge layer in silence, short enough that a dead registry is told of.
STALL_SECONDS = 900.0


class Puller:
    """Fetches images into one containerd namespace and unpacks them for one snapshotter."""

    def __init__(
        self,
        channel: rpc.Channel,
        namespace: str,
        platform: types_pb2.Platform,
        snapshotter: str,
        hosts_dir: str,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._metadata = in_namespace(namespace)
        self._platform = platform
        self._snapshotter = snapshotter
        self._hosts_dir = hosts_dir
        self._transfer = rpc.Service(channel, transfer_service_pb2, "Transfer")
        self._streaming = rpc.Service(channel, streaming_pb2, "Streaming")
        self._stall_seconds = stall_seconds

    async def pull(
        self, name: str, reference: str, credentials: Sequence[Credentials], on_progress: OnProgress | None
    ) -> None:
        """Fetch `name`, with each of the credentials until one is accepted. Errors speak of `reference`, as the user wrote it."""
        attempts: list[Credentials | None] = [*credentials] or [None]
        for left, one in enumerate(attempts, 1 - len(attempts)):
            try:
                async with asyncio.timeout(self._stall_seconds) as patience:
                    await self._pull_once(name, one, _Progress(on_progress, patience, self._stall_seconds))
                return
            except rpc.RpcError as error:
                failure = pull_error(reference, error, with_secret=one is not None)
                if left == 0 or not isinstance(failure, ImageUnauthorized):
                    raise failure from error
            except TimeoutError as error:
                raise ImagePullFailed(
                    f"image {reference}: the registry has sent nothing for {self._stall_seconds:.0f} s"
                ) from error

    async def _pull_once(self, name: str, credentials: Credentials | None, progress: _Progress) -> None:
        resolver = transfer_pb2.RegistryResolver(host_dir=self._hosts_dir)
        progress_id, auth_id = uuid.uuid4().hex, uuid.uuid4().hex
        target = transfer_pb2.ImageStore(
            name=name,
            platforms=[self._platform],
            unpacks=[transfer_pb2.UnpackConfiguration(platform=self._platform, snapshotter=self._snapshotter)],
        )
        async with AsyncExitStack() as streams:
            await streams.enter_async_context(self._stream(progress_id, progress.take))
            if credentials is not None:
                resolver.auth_stream = auth_id
                answer = _credentials(credentials)
                await streams.enter_async_context(self._stream(auth_id, lambda _: answer))
            await self._run(name, resolver, target, progress_id)
        progress.finish()

    async def _run(
        self,
        name: str,
        resolver: transfer_pb2.RegistryResolver,
        target: transfer_pb2.ImageStore,
        progress_id: str,
    ) -> None:
        source = transfer_pb2.OCIRegistry(reference=name, resolver=resolver)
        request = transfer_service_pb2.TransferRequest(
            source=_pack(source),
            destination=_pack(target),
            options=transfer_service_pb2.TransferOptions(progress_stream=progress_id),
        )
        await self._transfer.Transfer(request, metadata=self._metadata)

    @asynccontextmanager
    async def _stream(self, stream_id: str, answer: Callable[[AnyMessage], AnyMessage | None]) -> AsyncIterator[None]:
        """A stream by that id, acknowledged by containerd before the body runs; each message goes to `answer`."""
        stream = self._streaming.Stream(metadata=self._metadata)
        await stream.write(_pack(streaming_pb2.StreamInit(id=stream_id)))
        if await stream.read() is rpc.EOF:
            raise rpc.RpcError(rpc.StatusCode.INTERNAL, "containerd ended a stream before it began")
        listener = asyncio.create_task(_listen(stream, answer))
        try:
            yield
        finally:
            listener.cancel()
            stream.cancel()
            await asyncio.gather(listener, return_exceptions=True)


class _Progress:
    """Sums what containerd says of each blob; every message also shows that the pull is alive."""

    def __init__(self, on_progress: OnProgress | None, patience: asyncio.Timeout, stall_seconds: float) -> None:
        self._on_progress = on_progress
        self._patience = patience
        self._stall_seconds = stall_seconds
        self._blobs: dict[str, tuple[int, int]] = {}

    def take(self, message: AnyMessage) -> None:
        if not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time() + self._stall_seconds)
        progress = transfer_pb2.Progress.FromString(message.value)
        if progress.total <= 0:
            return
        done, total = self._blobs.get(progress.name, (0, 0))
        # Unpacking counts from nothing again: never go back.
        self._blobs[progress.name] = (max(done, progress.progress), max(total, progress.total))
        self._tell(sum(done for done, _ in self._blobs.values()))

    def finish(self) -> None:
        """All is here: containerd's last words come by chance before or after its answer."""
        if self._blobs:
            self._tell(sum(total for _, total in self._blobs.values()))

    def _tell(self, done: int) -> None:
        if self._on_progress is not None:
            self._on_progress(PullProgress(done, sum(total for _, total in self._blobs.values())))


async def _listen(stream: Any, answer: Callable[[AnyMessage], AnyMessage | None]) -> None:
    while (message := await stream.read()) is not rpc.EOF:
        reply = answer(message)
        if reply is not None:
            await stream.write(reply)


def _credentials(credentials: Credentials) -> AnyMessage:
    return _pack(
        transfer_pb2.AuthResponse(
            authType=transfer_pb2.CREDENTIALS, username=credentials.username, secret=credentials.password
        )
    )


def _pack(message: Any) -> AnyMessage:
    """containerd's typeurl: the bare full name."""
    return AnyMessage(type_url=message.DESCRIPTOR.full_name, value=message.SerializeToString())
