"""A Task's bundle: from its source to a read-only mount."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from iris_operator.agent.inputs.bundle_store import BundleStore, Sink, Tell, Wanted
from iris_operator.agent.inputs.copying import copy_folder, digest_of, is_folder, pour
from iris_operator.agent.inputs.download import (
    fetch_http,
    fetch_s3,
    http_headers,
    new_session,
    s3_keys,
    s3_words,
    shown,
)
from iris_operator.agent.inputs.key_files import Owner, write_files
from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.model import Fetching, InputFault
from iris_operator.agent.inputs.remove import remove_tree
from iris_operator.agent.inputs.safe_paths import parts_of
from iris_operator.agent.inputs.threads import to_the_end
from iris_operator.agent.inputs.volumes import Volumes, target_path
from iris_operator.agent.inputs.wants import ObjectKind, Objects
from iris_operator.api.task import Task
from iris_operator.api.volume import Bundle, ConfigMapSource, HttpSource, S3Source, VolumeSource
from iris_runtimes.protocol import Mount

_BLOCK = 2**20


class Bundler:
    """Of one node."""

    def __init__(self, layout: Layout, store: BundleStore) -> None:
        self._layout, self._store = layout, store

    async def mount(self, task: Task, objects: Objects, volumes: Volumes, tell: Tell) -> Mount | None:
        """The bundle's mount once it is there; None for a Task without. InputFault, OSError."""
        bundle, binding = task.spec.bundle, task.spec.binding
        if bundle is None:
            return None
        assert binding is not None
        target = target_path(bundle.mount_path, "bundle.mountPath")
        uid, attempt = task.metadata.uid, binding.attempt
        tell(Fetching(_words(bundle)))
        wanted = await _archive(bundle, objects, volumes)
        if wanted is not None:
            path = await self._store.get(wanted, uid, attempt, tell)
        else:
            path = self._layout.attempt(uid, attempt) / "bundle"
            await to_the_end(self._make_folder, path, bundle, objects, volumes)
        return Mount(str(path), target, read_only=True)

    def _make_folder(self, path: Path, bundle: Bundle, objects: Objects, volumes: Volumes) -> None:
        if bundle.digest:
            raise InputFault(
                "BundleInvalid", "bundle.digest is that of an archive, and this bundle is none: leave it out"
            )
        if bundle.config_map is not None:
            data = objects.data((ObjectKind.CONFIG_MAP, bundle.config_map.name), "bundle")
            files: dict[tuple[str, ...], bytes] = {(key,): value for key, value in (data or {}).items()}
            write_files(path, files, 0o755, Owner())
        elif bundle.volume is not None:
            root, parts = _place(bundle.volume, volumes)
            remove_tree(path, self._layout.trash)
            copy_folder(root, parts, path, _words(bundle))


async def _archive(bundle: Bundle, objects: Objects, volumes: Volumes) -> Wanted | None:
    """The archive to have; None when the source is no archive."""
    what = _words(bundle)
    if bundle.http is not None:
        return _by_http(bundle.http, bundle.digest, what, objects)
    if bundle.s3 is not None:
        return _by_s3(bundle.s3, bundle.digest, what, objects)
    if bundle.config_map is not None:
        return await _by_config_map(bundle.config_map, bundle.digest, what, objects)
    assert bundle.volume is not None  # the schema's rule
    root, parts = _place(bundle.volume, volumes)
    if await asyncio.to_thread(is_folder, root, parts, what):
        return None
    digest = bundle.digest or await asyncio.to_thread(digest_of, root, parts, what)

    async def fetch(sink: Sink) -> None:
        await asyncio.to_thread(pour, root, parts, what, sink)

    return Wanted(digest, what, f"volume {root} {parts}", fetch)


def _by_http(source: HttpSource, digest: str, what: str, objects: Objects) -> Wanted:
    headers = http_headers(_secret(source.secret_name, objects), source.secret_name)

    async def fetch(sink: Sink) -> None:
        async with new_session() as session:
            await fetch_http(session, source, headers, sink)

    return Wanted(digest, what, f"{objects.namespace} {source.model_dump_json()}", fetch)


def _by_s3(source: S3Source, digest: str, what: str, objects: Objects) -> Wanted:
    keys = s3_keys(_secret(source.secret_name, objects), source.secret_name)

    async def fetch(sink: Sink) -> None:
        async with new_session() as session:
            await fetch_s3(session, source, keys, sink)

    return Wanted(digest, what, f"{objects.namespace} {source.model_dump_json()}", fetch)


async def _by_config_map(source: ConfigMapSource, digest: str, what: str, objects: Objects) -> Wanted | None:
    if not source.key:
        return None
    content = objects.value((ObjectKind.CONFIG_MAP, source.name), source.key, "bundle") or b""
    found = await asyncio.to_thread(hashlib.sha256, content)
    return Wanted(digest or f"sha256:{found.hexdigest()}", what, f"content {found.hexdigest()}", _pourer(content))


def _pourer(content: bytes) -> Callable[[Sink], Awaitable[None]]:
    async def fetch(sink: Sink) -> None:
        sink.expect(len(content))
        await asyncio.to_thread(sink.take, content)

    return fetch


def _secret(name: str, objects: Objects) -> Mapping[str, bytes] | None:
    return objects.data((ObjectKind.SECRET, name), "bundle") if name else None


def _place(source: VolumeSource, volumes: Volumes) -> tuple[Path, tuple[str, ...]]:
    found = volumes.sources.get(source.name)
    if found is None:
        words = "is an empty memory" if source.name in volumes.tmpfs_bytes else "is not among volumes"
        raise InputFault("BundleInvalid", f"bundle.volume.name: {source.name} {words}")
    return found.agent, parts_of(source.path, "bundle.volume.path")


def _words(bundle: Bundle) -> str:
    if bundle.http is not None:
        return f"bundle {shown(bundle.http.url)}"
    if bundle.s3 is not None:
        return s3_words(bundle.s3)
    if bundle.config_map is not None:
        return (
            f"bundle ConfigMap {bundle.config_map.name}{f', key {bundle.config_map.key}' * bool(bundle.config_map.key)}"
        )
    assert bundle.volume is not None  # the schema's rule
    return f"bundle volume {bundle.volume.name}, {bundle.volume.path or '/'}"
