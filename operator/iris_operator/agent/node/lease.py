"""The agent's heartbeat: a Lease named as its worker Pod, renewed every 10 s, with what is wrong on an annotation."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from iris_operator.agent.backoff import Backoff
from iris_operator.agent.config import AgentConfig
from iris_operator.agent.metrics import Metrics
from iris_operator.api.machine import Machine
from iris_operator.api.names import (
    ANNOTATION_AGENT_PROBLEM,
    ANNOTATION_AGENT_VERSION,
    ANNOTATION_DISK_PRESSURE,
    ANNOTATION_MACHINE,
    LABEL_MACHINE,
    LABEL_MANAGED,
    LABEL_SLICE,
)
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import LEASES, KubeApi
from iris_operator.version import VERSION

log = logging.getLogger(__name__)

RENEW_SECONDS = 10.0
DURATION_SECONDS = 40
_RETRY_SECONDS = (0.5, 3.0)


class Heartbeat:
    """`problem` gives one line, empty when all is well; `disk` why no more Tasks shall come, empty when they may.

    `poke` renews at once, when one of them has changed. `machine` gives what is said of a machine outside of Kubernetes, once
    that is known.
    """

    def __init__(
        self,
        api: KubeApi,
        config: AgentConfig,
        metrics: Metrics,
        problem: Callable[[], str],
        disk: Callable[[], str] = lambda: "",
        machine: Callable[[], Machine | None] = lambda: None,
    ) -> None:
        self._machine = machine
        self._api, self._config, self._metrics, self._problem, self._disk = api, config, metrics, problem, disk
        self._poked = asyncio.Event()
        self._acquired = datetime.now(UTC)

    def poke(self) -> None:
        """Renew now."""
        self._poked.set()

    async def run(self) -> None:
        """Runs until cancelled. A heartbeat that fails is tried again soon: the operator gives us 40 s."""
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            self._poked.clear()
            try:
                await self._beat()
                backoff.reset()
            except ApiError as error:
                log.warning("renewing Lease %s: %s", self._config.pod_name, error)
                await backoff.wait()
                continue
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._poked.wait()
            except TimeoutError:
                continue

    async def _beat(self) -> None:
        body = self._body()
        self._metrics.wrote("patch", "leases")
        try:
            await self._api.patch(LEASES, self._config.pod_name, body, namespace=self._config.pod_namespace)
        except NotFoundError:
            self._metrics.wrote("create", "leases")
            try:
                await self._api.create(LEASES, body, self._config.pod_namespace)
            except ConflictError:
                self.poke()  # made by a predecessor just now: take it over

    def _body(self) -> dict[str, Any]:
        config = self._config
        annotations: dict[str, str | None] = {
            ANNOTATION_AGENT_VERSION: VERSION,
            ANNOTATION_AGENT_PROBLEM: self._problem() or None,
            ANNOTATION_DISK_PRESSURE: self._disk() or None,
        }
        labels = {LABEL_MANAGED: "true", LABEL_SLICE: config.slice_name}
        if (machine := self._machine()) is not None:
            labels[LABEL_MACHINE] = "true"
            annotations[ANNOTATION_MACHINE] = json.dumps(machine.wire())
        owner = {"apiVersion": "v1", "kind": "Pod", "name": config.pod_name, "uid": config.pod_uid}
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {
                "name": config.pod_name,
                "namespace": config.pod_namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [] if config.outside else [owner],
            },
            "spec": {
                "holderIdentity": config.pod_uid,
                "leaseDurationSeconds": DURATION_SECONDS,
                "acquireTime": _micro(self._acquired),
                "renewTime": _micro(datetime.now(UTC)),
            },
        }


def _micro(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
