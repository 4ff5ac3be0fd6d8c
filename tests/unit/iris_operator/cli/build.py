"""A session on the fake API whose worker Pods' agents answer from memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from iris_operator.adapters.fakes.kube import FakeKube
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.cli.session import Session
from iris_operator.ports.errors import ApiError, UnavailableError
from iris_operator.ports.kube import PODS, TASKS

BINDING = {
    "sliceName": "s", "nodeName": "n", "workerPod": "s-worker-0", "workerUid": "u", "rank": 0, "attempt": 1,
    "boundAt": "2026-11-21T11:59:59Z",
}  # fmt: skip
STARTED = {"phase": "Running", "reason": "Started", "attempt": 1, "startTime": "2026-11-21T12:00:00Z"}
DONE = {**STARTED, "phase": "Succeeded", "reason": "Completed", "message": "exit code 0", "exitCode": 0}


class Answer:
    """One answer of an agent: chunks, an exception breaks off."""

    def __init__(self, *chunks: bytes | Exception, offset: int = 0) -> None:
        self.chunks, self.headers = chunks, {"Iris-Log-Offset": str(offset)}

    @property
    def content(self) -> Answer:
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class Api(FakeKube):
    """The fake API with a gateway: `answers` are given in turn, the last one for ever; `asked` is what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Answer | ApiError] = []
        self.asked: list[tuple[str, dict[str, str]]] = []

    @asynccontextmanager
    async def open(self, method: str, path: str, *, params: dict[str, str], timeout: Any) -> AsyncIterator[Answer]:
        self.asked.append((path, params))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            raise answer
        yield answer

    @property
    def session(self) -> Session:
        return Session(cast(KubeClient, self), "default")

    async def task(self, status: dict[str, Any] | None = None, *, bound: bool = True, name: str = "t") -> str:
        """Make a Task; its uid."""
        spec: dict[str, Any] = {"image": "registry.test/task:1"}
        if bound:
            spec["binding"] = BINDING
        made = await self.create(TASKS, {"metadata": {"name": name}, "spec": spec}, "default")
        if status:
            await self.say(status, name)
        return str(made["metadata"]["uid"])

    async def say(self, status: dict[str, Any], name: str = "t") -> None:
        await self.patch(TASKS, name, {"status": status}, namespace="default", subresource="status")

    async def worker(self, name: str = "s-worker-0", port: int = 10001) -> None:
        """Make the worker Pod."""
        containers = [{"name": "agent", "ports": [{"containerPort": port}]}]
        await self.create(PODS, {"metadata": {"name": name}, "spec": {"containers": containers}}, "default")


def broken() -> UnavailableError:
    """A connection that broke, or could not be made."""
    return UnavailableError(0, "Unreachable", "connection reset")
