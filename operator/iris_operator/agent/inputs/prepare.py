"""Brings what a Task names, and takes it away when its attempt is over."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from iris_operator.agent.inputs.bundle import Bundler
from iris_operator.agent.inputs.bundle_store import BundleStore, Tell, sweep_unfinished
from iris_operator.agent.inputs.env import environment
from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.model import InputFault, Inputs, Whose
from iris_operator.agent.inputs.objects import read_objects
from iris_operator.agent.inputs.remove import empty_trash, remove_tree
from iris_operator.agent.inputs.tell import tell_skipped
from iris_operator.agent.inputs.threads import to_the_end
from iris_operator.agent.inputs.volumes import Volumes, make_volumes, mounts_of
from iris_operator.agent.inputs.wants import ObjectKind, Objects, wanted
from iris_operator.api.task import Task
from iris_operator.ports.kube import KubeApi
from iris_runtimes.protocol import Mount

log = logging.getLogger(__name__)

_TRASH = ".trash"
_SPARED = timedelta(minutes=1)
_LONGEST_SCRIPT = 256 * 2**10


class Preparer:
    """Of one node. `given`: what the worker Pod mounts, known once the runtime has told it."""

    def __init__(self, api: KubeApi, cache_dir: Path, host_ip: str) -> None:
        self._api, self._host_ip = api, host_ip
        self.layout = Layout(cache_dir)
        self._store = BundleStore(self.layout)

    def give(self, mounts: tuple[Mount, ...]) -> None:
        """What the worker Pod mounts."""
        self.layout = Layout(self.layout.cache, mounts)

    def needed(self, task: Task) -> bool:
        """Whether there is anything to bring: `prepare` takes no time else."""
        return bool(task.spec.volume_mounts or task.spec.bundle is not None or wanted(task))

    async def prepare(self, task: Task, tell: Tell) -> Inputs:
        """All that it names, ready; may be done again. InputFault. A Task that names nothing costs nothing."""
        wants = wanted(task)
        namespace = task.metadata.namespace
        objects = await read_objects(self._api, namespace, wants) if wants else Objects(namespace)
        found = environment(task, objects, self._host_ip)
        if found.skipped:
            await tell_skipped(self._api, task, found.skipped, datetime.now(UTC))
        script = _script(task, objects)
        if not task.spec.volume_mounts and task.spec.bundle is None:
            return Inputs(found.variables, setup_script=script)
        try:
            volumes = await to_the_end(make_volumes, task, objects, self.layout)
            mounts, tmpfs = mounts_of(task, volumes)
            bundle = await self._bundle(task, objects, volumes, tell)
        except OSError as error:
            words = f"making the Task's inputs on node {_node(task)}: {error.strerror or error}"
            raise InputFault("InputsFault", words, Whose.PLATFORM) from error
        return Inputs(found.variables, (*mounts, *bundle), tmpfs, script)

    async def _bundle(self, task: Task, objects: Objects, volumes: Volumes, tell: Tell) -> tuple[Mount, ...]:
        mount = await Bundler(self.layout, self._store).mount(task, objects, volumes, tell)
        return () if mount is None else (mount,)

    async def discard(self, uid: str, attempt: int | None = None) -> None:
        """Take away an attempt's, or all of a Task's. What can't go now is tried again by the next agent."""
        if not self._has_any(uid):
            return  # most: two looks are cheaper than a thread
        try:
            await asyncio.to_thread(self._discard, uid, attempt)
        except OSError as error:
            log.warning("removing the inputs of Task %s: %s", uid, error)

    def _homes(self) -> list[Path]:
        """Where attempts have folders; files of Secrets first."""
        secrets = self.layout.secrets
        return [*((secrets.agent,) if secrets is not None else ()), self.layout.attempts]

    def _has_any(self, uid: str) -> bool:
        return any(os.path.lexists(f"{home}/{uid}") for home in self._homes())

    def _discard(self, uid: str, attempt: int | None) -> None:
        for home in self._homes():
            # On the same file system each: what is removed is moved there first.
            trash = self.layout.trash if home == self.layout.attempts else home / _TRASH
            whole = home / uid
            remove_tree(whole if attempt is None else whole / str(attempt), trash)
            if attempt is not None and whole.is_dir() and not any(whole.iterdir()):
                remove_tree(whole, trash)

    def collect(self) -> None:
        """For want of room: bundles that no Task here has, but for those just fetched. Blocking."""
        gone = self._store.collect(datetime.now(UTC) - _SPARED)
        if gone:
            log.info("removed bundles that no Task here has: %s", ", ".join(gone))

    async def sweep(self, wanted_uids: Collection[str]) -> None:
        """At start-up, before Tasks: what earlier agents left of other Tasks than these."""
        try:
            await asyncio.to_thread(self._sweep, frozenset(wanted_uids))
        except OSError as error:
            log.warning("removing what earlier agents left: %s", error)

    def _sweep(self, wanted_uids: frozenset[str]) -> None:
        empty_trash(self.layout.trash)
        sweep_unfinished(self.layout)
        for home in self._homes():
            empty_trash(home / _TRASH)
            for left in list(home.iterdir()) if home.is_dir() else []:
                if left.name not in wanted_uids and not left.name.startswith("."):
                    self._discard(left.name, None)


def _script(task: Task, objects: Objects) -> str:
    """containerLifetime.setupScript's text out of its ConfigMap. InputFault."""
    wanted_script = task.spec.container_lifetime.setup_script
    reference = wanted_script.config_map_key_ref if wanted_script is not None else None
    if reference is None:
        return ""
    want = ObjectKind.CONFIG_MAP, reference.name
    raw = objects.value(want, reference.key, "setupScript", optional=reference.optional) or b""
    if len(raw) > _LONGEST_SCRIPT:
        words = (
            f"setupScript: key {reference.key} of ConfigMap {reference.name} has {len(raw)} bytes, at most 256 KiB fit"
        )
        raise InputFault("SetupScriptTooLarge", words)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        words = f"setupScript: key {reference.key} of ConfigMap {reference.name} is no text"
        raise InputFault("ValueNotText", words) from error


def _node(task: Task) -> str:
    assert task.spec.binding is not None
    return task.spec.binding.node_name
