"""The thin client against a real API server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import connect
from iris_operator.ports.errors import InvalidError, UnavailableError
from iris_operator.ports.kube import TASKS
from tests.contracts.kube import KubeContract, task_body

pytestmark = pytest.mark.cluster


class TestKubeClient(KubeContract):
    """The contract."""


async def test_schema_errors_are_invalid(api: KubeClient, namespace: str) -> None:
    body = task_body("t")
    body["spec"]["image"] = "with space"
    with pytest.raises(InvalidError) as caught:
        await api.create(TASKS, body, namespace)
    assert "spec.image" in caught.value.message


async def test_spec_is_immutable_but_for_the_binding(api: KubeClient, namespace: str) -> None:
    await api.create(TASKS, task_body("t"), namespace)
    with pytest.raises(InvalidError):
        await api.patch(TASKS, "t", {"spec": {"image": "other/x:1"}}, namespace=namespace)


async def test_list_pages(api: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iris_operator.adapters.kube.client._PAGE", 2)
    for number in range(5):
        await api.create(TASKS, task_body(f"t{number}"), namespace)
    assert len((await api.list(TASKS, namespace)).items) == 5


async def test_unreachable_is_unavailable(kubeconfig: Path) -> None:
    elsewhere = replace(await connect(str(kubeconfig)), server="https://127.0.0.1:1")
    async with KubeClient(elsewhere) as client:
        with pytest.raises(UnavailableError):
            await client.get(TASKS, "t", "default")
