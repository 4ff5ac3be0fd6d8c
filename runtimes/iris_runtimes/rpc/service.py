"""A service of a .proto as an object with its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import message_factory

from iris_runtimes.rpc.call import Call
from iris_runtimes.rpc.channel import Channel, Metadata


class Service:
    """`Service(channel, tasks_pb2, "Tasks").Start(request, metadata=..., timeout=seconds)`.

    A method whose answer is one message is a coroutine function; of the others, a call is an rpc.call.Call, which takes the
    requests by `write` when they are a stream too.
    """

    def __init__(self, channel: Channel, module: Any, name: str) -> None:
        self._channel = channel
        self._service = module.DESCRIPTOR.services_by_name[name]

    def __getattr__(self, name: str) -> Any:
        """A method, made when it is first asked for: a service has many, and who makes one for a moment calls two."""
        method = self._service.methods_by_name.get(name)
        if method is None:
            raise AttributeError(f"{self._service.full_name} has no method {name}")
        decode = message_factory.GetMessageClass(method.output_type).FromString
        make = _streaming if method.server_streaming or method.client_streaming else _unary
        made = make(self._channel, f"/{self._service.full_name}/{name}", decode)
        setattr(self, name, made)
        return made


def _unary(channel: Channel, path: str, decode: Callable[[bytes], Any]) -> Callable[..., Any]:
    async def call(request: Any, *, metadata: Metadata = (), timeout: float | None = None) -> Any:
        return decode(await channel.unary(path, request.SerializeToString(), metadata, timeout))

    return call


def _streaming(channel: Channel, path: str, decode: Callable[[bytes], Any]) -> Callable[..., Any]:
    def call(request: Any = None, *, metadata: Metadata = (), timeout: float | None = None) -> Call:
        message = None if request is None else request.SerializeToString()
        return Call(lambda: channel.begin(path, message, metadata, timeout), decode)

    return call
