"""The node's own affairs, beside its Tasks' lives: settings, room on the disk, logs within bounds and archived, leftovers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from iris_operator.adapters.s3 import Bucket, Keys, put_file
from iris_operator.agent.config import AgentConfig
from iris_operator.agent.logs.archive import Archive
from iris_operator.agent.logs.bounds import LogBounds
from iris_operator.agent.logs.files import stored_uids
from iris_operator.agent.metrics import Metrics
from iris_operator.agent.node.images import ImagesKeeper
from iris_operator.agent.node.settings import Settings
from iris_operator.agent.sandbox.labels import facts
from iris_operator.agent.sandbox.store import Sandboxes
from iris_operator.agent.server import LogState
from iris_operator.agent.task_store import TaskStore
from iris_operator.api.quantity import amount
from iris_operator.ports.kube import KubeApi
from iris_runtimes.errors import ImageInvalid
from iris_runtimes.protocol import Runtime, SandboxState
from iris_runtimes.reference import normalize

log = logging.getLogger(__name__)

# Of logs whose Task has left this node: whether it was deleted since. Each costs one question to the API.
_LEFTOVERS_SECONDS = 600.0
_LEFTOVERS_AT_ONCE = 100


class TooManyTasks(Exception):
    """The node has as many as worker.maxTasks lets it; the message has the numbers."""


class NodeKeeper:
    """`log_state`, `mark`: the agent's own. `tell`: whether Tasks are refused has changed."""

    def __init__(
        self,
        config: AgentConfig,
        api: KubeApi,
        runtime: Runtime,
        store: TaskStore,
        sandboxes: Sandboxes,
        metrics: Metrics,
        log_state: Callable[[str, int], LogState],
        mark: Callable[[str], None],
        tell: Callable[[], None],
    ) -> None:
        self.registry = ""  # of images that name none
        self._config, self._store, self._sandboxes, self._mark = config, store, sandboxes, mark
        self.settings = Settings(api, config.pod_namespace, config.cluster_name, self._on_settings)
        self.disk = ImagesKeeper(
            runtime, lambda: self.settings.spec.worker.disk, _folders(config), self._wanted_images, tell
        )
        self.archive = Archive(
            api, config.pod_namespace, config.logs_dir, lambda: self.settings.spec.logs.archive, log_state, store.get,
            self._put, metrics.wrote,
        )  # fmt: skip
        self._bounds = LogBounds(self._max_log_bytes, self._growing_logs)
        self.opened = asyncio.Event()  # what is desired and observed is known
        self._new_settings = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._asked: set[str] = set()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.settings.run(), name="read the settings")
                group.create_task(self.disk.run(), name="look after the disk")
                group.create_task(self._bounds.run(), name="keep logs within bounds")
                group.create_task(self._archive_what_is_there(), name="archive logs that are there")
                group.create_task(self._leftovers(), name="look for leftovers")
        finally:
            await self.archive.close()
            if self._session is not None:
                await self._session.close()

    def look(self, uid: str) -> None:
        """Something about a Task changed."""
        self.disk.poke()
        self.archive.look(uid)

    def check_room(self, uid: str) -> None:
        """That the Task may start, by the number of those that run. The operator counts too, but by what it last saw.

        Raises TooManyTasks.
        """
        most = self.settings.spec.worker.max_tasks
        running = {facts(one).task_uid for one in self._sandboxes.all() if one.state is not SandboxState.EXITED}
        if len(running - {uid}) >= most:
            node = self._config.node_name
            raise TooManyTasks(f"node {node} runs {len(running - {uid})} of {most} Tasks (worker.maxTasks)")

    async def leave(self, uid: str, seconds: float) -> None:
        """A Task's logs are about to be deleted."""
        await self.archive.settle(uid, seconds)

    def _on_settings(self) -> None:
        self._new_settings.set()
        self.disk.poke()

    async def _archive_what_is_there(self) -> None:
        bucket = ""
        await self.opened.wait()
        while True:
            await self._new_settings.wait()
            self._new_settings.clear()
            before, bucket = bucket, self.settings.spec.logs.archive.bucket
            if bucket and bucket != before:
                await self.archive.look_at_files(await asyncio.to_thread(stored_uids, self._config.logs_dir))

    async def _leftovers(self) -> None:
        while True:
            await asyncio.sleep(_LEFTOVERS_SECONDS)
            await self.look_for_leftovers()

    async def look_for_leftovers(self) -> None:
        """Ask again for Tasks whose logs lie here though they are not on this node: some, in turn."""
        stored = await asyncio.to_thread(stored_uids, self._config.logs_dir)
        left = {uid for uid in stored if self._store.get(uid) is None}
        if not left - self._asked:
            self._asked.clear()
        some = sorted(left - self._asked)[:_LEFTOVERS_AT_ONCE]
        self._asked.update(some)
        for uid in some:
            self._mark(uid)

    def _wanted_images(self) -> set[str]:
        found = set()
        for task in list(self._store.tasks.values()):
            if not task.ended:
                try:
                    found.add(normalize(task.spec.image, self.registry))
                except ImageInvalid:
                    continue
        return found

    def _max_log_bytes(self) -> int:
        return amount("memory", self.settings.spec.logs.max_bytes)

    def _growing_logs(self) -> Iterable[Path]:
        running = (one for one in self._sandboxes.all() if one.state is SandboxState.RUNNING)
        return [Path(path) for one in running if (path := facts(one).log_path)]

    async def _put(self, bucket: Bucket, key: str, keys: Keys | None, path: Path, begin: int, head: bytes) -> str:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return await put_file(self._session, bucket, key, keys, path, datetime.now(UTC), begin=begin, head=head)


def _folders(config: AgentConfig) -> Mapping[str, Path]:
    """File systems to watch. The agent's own root is a snapshot on the runtime's: where that lies, a Pod can't know."""
    return {"images": config.images_dir, "the cache folder": config.cache_dir}
