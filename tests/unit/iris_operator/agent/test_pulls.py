"""Pulling: with which credentials, how far it is, and what its end means."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Sequence

import pytest

from iris_operator.ports.kube import SECRETS, TASKS
from iris_runtimes.errors import ImageUnauthorized
from iris_runtimes.protocol import Credentials, Image, PullPolicy, PullProgress
from tests.unit.iris_operator.agent.harness import Node, until

MIB = 2**20


class Registry:
    """A pull that waits for `finished`, and wants `wanted` as credentials."""

    def __init__(self) -> None:
        self.wanted: Credentials | None = None
        self.finished = asyncio.Event()
        self.pulling = 0

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        self.pulling += 1
        try:
            if on_progress is not None:
                on_progress(PullProgress(5 * MIB, 20 * MIB))
            await self.finished.wait()
        finally:
            self.pulling -= 1
        if self.wanted is not None and self.wanted not in credentials:
            raise ImageUnauthorized(f"the registry refuses image {reference}")
        return Image(reference, "sha256:1")


@pytest.fixture
def registry(node: Node, monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    monkeypatch.setattr(node.runtime, "pull", found.pull)
    return found


async def secret(node: Node, name: str, username: str) -> None:
    auths = {"auths": {"registry.test": {"username": username, "password": "p"}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    body = {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    await node.api.create(SECRETS, body, "default")


async def test_a_long_pull_tells_how_far_it_is(node: Node, registry: Registry) -> None:
    async with node.agent():
        await node.bind()
        building = await node.phase("Building")
        registry.finished.set()
        await node.phase("Succeeded")
    assert building["reason"] == "Pulling"
    assert "5 of 20 MiB" in building["message"]
    assert node.status_writes() == 2


async def test_secrets_are_tried(node: Node, registry: Registry) -> None:
    registry.finished.set()
    registry.wanted = Credentials("right", "p")
    await secret(node, "one", "wrong")
    await secret(node, "two", "right")
    async with node.agent():
        await node.bind(imagePullSecrets=[{"name": "one"}, {"name": "absent"}, {"name": "two"}])
        await node.phase("Succeeded")


async def test_an_absent_secret_is_named_when_it_matters(node: Node, registry: Registry) -> None:
    registry.finished.set()
    registry.wanted = Credentials("right", "p")
    async with node.agent():
        await node.bind(imagePullSecrets=[{"name": "absent"}])
        status = await node.phase("Failed")
    assert status["reason"] == "ImageUnauthorized"
    assert "imagePullSecrets names absent, absent in namespace default" in status["message"]


async def test_a_bad_secret_is_the_users(node: Node, registry: Registry) -> None:
    await node.api.create(SECRETS, {"metadata": {"name": "bad"}, "type": "Opaque"}, "default")
    async with node.agent():
        await node.bind(imagePullSecrets=[{"name": "bad"}])
        status = await node.phase("Failed")
    assert status["reason"] == "PullSecretInvalid"
    assert "Opaque" in status["message"]


async def test_deletion_cancels_a_pull(node: Node, registry: Registry) -> None:
    async with node.agent():
        await node.bind()
        await until(lambda: registry.pulling)
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
        assert registry.pulling == 0
    assert not node.runtime.started


async def test_a_stop_cancels_a_pull(node: Node, registry: Registry) -> None:
    async with node.agent():
        await node.bind()
        await until(lambda: registry.pulling)
        await node.api.patch(TASKS, "t", {"spec": {"binding": {"stopReason": "SliceDeleted"}}}, namespace="default")
        status = await node.over(1)
    assert (status["reason"], registry.pulling) == ("SliceDeleted", 0)
    assert "startTime" not in status
