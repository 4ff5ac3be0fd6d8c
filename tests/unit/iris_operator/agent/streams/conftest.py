from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.iris_operator.agent.streams.kit import StreamNode, stream_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StreamNode]:
    async with stream_node(tmp_path) as found:
        yield found
