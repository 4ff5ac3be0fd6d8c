"""The fake behaves as the real client does, and breaks on command."""

from __future__ import annotations

import pytest

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.ports.errors import GoneError, UnavailableError
from iris_operator.ports.kube import TASKS
from tests.contracts.kube import KubeContract, first, task_body


@pytest.fixture
def api() -> FakeKube:
    return FakeKube()


@pytest.fixture
def namespace() -> str:
    return "default"


class TestFakeKube(KubeContract):
    """The contract."""


async def test_down_breaks_calls_and_watches(api: FakeKube) -> None:
    version = (await api.list(TASKS)).resource_version
    watch = api.watch(TASKS, resource_version=version)
    await api.set_down(True)
    with pytest.raises(UnavailableError):
        await anext(watch)
    with pytest.raises(UnavailableError):
        await api.create(TASKS, task_body("t"))
    await api.set_down(False)
    await api.create(TASKS, task_body("t"))


async def test_compacted_history_is_gone(api: FakeKube) -> None:
    version = (await api.list(TASKS)).resource_version
    await api.create(TASKS, task_body("t"))
    api.compact()
    with pytest.raises(GoneError):
        await first(api.watch(TASKS, resource_version=version), 1)
