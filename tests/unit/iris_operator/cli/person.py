"""What the tests of commands that reach running Tasks share: both ends together, on the fake runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from iris_operator.api.streams import Channel
from iris_operator.cli.session import Target
from tests.unit.iris_operator.agent.streams.kit import Gateway

HERE = Target(None, None, None)


async def run_task(gateway: Gateway, name: str = "t", **more: Any) -> str:
    uid = await gateway.task(name)
    await gateway.node.start(name, uid=uid, **more)
    return uid


class Heard:
    """Takes what a command writes."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Channel, bytes]] = []

    async def take(self, channel: Channel, data: bytes) -> None:
        self.pieces.append((channel, data))


async def source(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
