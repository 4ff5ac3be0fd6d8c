"""The settings of the IrisCluster that this worker belongs to, as they are now; not what they were when its Pod was made.

Asked for every 10 s: a watch would bring every change of the IrisCluster's status, which counts Tasks, to every node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pydantic import ValidationError

from iris_operator.api.cluster import IrisCluster, IrisClusterSpec
from iris_operator.plan.settings import NoCluster, cluster_for
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import IRIS_CLUSTERS, KubeApi

log = logging.getLogger(__name__)

ASK_SECONDS = 10.0


class Settings:
    """`spec` is the defaults until it was read once, and what was read last while it can't be. `on_change`: it is new."""

    def __init__(self, api: KubeApi, namespace: str, cluster_name: str, on_change: Callable[[], None]) -> None:
        self.spec = IrisClusterSpec()
        self._api, self._namespace, self._name, self._on_change = api, namespace, cluster_name, on_change
        self._trouble = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(ASK_SECONDS)

    async def refresh(self) -> None:
        """Read it once more. Whatever goes wrong is logged once and leaves all as it was."""
        try:
            bodies = (await self._api.list(IRIS_CLUSTERS, self._namespace)).items
            found = cluster_for(self._namespace, self._name, [IrisCluster.parse(body) for body in bodies])
        except (ApiError, ValidationError) as error:
            self._say(f"reading the IrisCluster: {error}")
            return
        if isinstance(found, NoCluster):
            self._say(found.message)
            return
        self._say("")
        if found.spec != self.spec:
            self.spec = found.spec
            self._on_change()

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("%s; the settings stay as they are", trouble)
        self._trouble = trouble
