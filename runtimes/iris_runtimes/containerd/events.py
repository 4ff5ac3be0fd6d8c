"""Exits, by containerd's event stream."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, in_namespace, translate
from iris_runtimes.containerd.executor import EXEC_PREFIX
from iris_runtimes.containerd.proto import events_service_pb2, task_events_pb2
from iris_runtimes.errors import RuntimeUnavailable

_KNOCK_SECONDS = 0.05


async def exits(channel: rpc.Channel, namespace: str) -> AsyncGenerator[str | None, None]:
    """Ids of sandboxes whose command ended. The first item is None: from there on no exit is missed.

    containerd does not say when a subscription has begun, so we publish an event of our own until it comes back.
    Ends with RuntimeUnavailable.
    """
    events = rpc.Service(channel, events_service_pb2, "Events")
    knock_topic = f"/iris/subscribed/{uuid.uuid4().hex}"
    filters = [f'topic=="/tasks/exit",namespace=="{namespace}"', f'topic=="{knock_topic}"']
    stream = events.Subscribe(events_service_pb2.SubscribeRequest(filters=filters), metadata=in_namespace(namespace))
    knocking = asyncio.create_task(_knock(events, namespace, knock_topic))
    begun = False
    try:
        async for envelope in stream:
            if envelope.topic == knock_topic:
                knocking.cancel()
                if not begun:
                    begun = True
                    yield None
                continue
            event = task_events_pb2.TaskExit.FromString(envelope.event.value)
            if not event.id.startswith(EXEC_PREFIX):
                yield str(event.id)
    except rpc.RpcError as error:
        raise translate(error) from error
    finally:
        stream.cancel()
        knocking.cancel()
        await asyncio.gather(knocking, return_exceptions=True)
    raise RuntimeUnavailable("containerd closed its event stream")


async def _knock(events: rpc.Service, namespace: str, topic: str) -> None:
    event = Empty()
    request = events_service_pb2.PublishRequest(
        topic=topic, event=AnyMessage(type_url=event.DESCRIPTOR.full_name, value=event.SerializeToString())
    )
    while True:
        await events.Publish(request, **call_options(namespace))
        await asyncio.sleep(_KNOCK_SECONDS)
