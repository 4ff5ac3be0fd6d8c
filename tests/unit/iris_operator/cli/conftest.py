"""Both ends of the streams of running Tasks, on the fake runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from iris_operator.cli import cp, images, logs, port_forward, top
from iris_operator.cli import exec as exec_module
from iris_operator.cli.session import Session, Target
from tests.unit.iris_operator.agent.streams.kit import Gateway, stream_node


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    async with stream_node(tmp_path) as node:
        found = Gateway(node)

        @asynccontextmanager
        async def session(target: Target) -> AsyncIterator[Session]:
            yield found.cli

        for module in (cp, exec_module, images, logs, port_forward, top):
            monkeypatch.setattr(module, "session", session)
        monkeypatch.setattr(top, "_APART_SECONDS", 0.01)
        yield found
