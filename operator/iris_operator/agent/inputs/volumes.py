"""A Task's volumes, made ready on the node. Blocking file work: call it in a thread."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iris_operator.agent.inputs.key_files import Owner, chosen_files, write_files
from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.agent.inputs.safe_paths import make_beneath, opened_beneath, parts_of
from iris_operator.agent.inputs.wants import ObjectKind, Objects, mounted_volumes
from iris_operator.api.quantity import amount
from iris_operator.api.task import Task
from iris_operator.api.volume import ConfigMapVolume, HostPathVolume, SecretVolume, Volume, VolumeMount
from iris_runtimes.protocol import Mount, Tmpfs

_OPEN_TO_ALL = 0o777
_USUAL_MEMORY_BYTES = 64 * 2**20
_LINKS = (errno.ELOOP, errno.ENOTDIR)


@dataclass(frozen=True)
class Source:
    """A volume's place: the agent's path and the node's. `own`: no other Task can change what is in it."""

    agent: Path
    node: str
    read_only: bool = False
    own: bool = False


@dataclass(frozen=True)
class Volumes:
    """By the volume's name; those in memory are no place on the node: `tmpfs_bytes` of them."""

    sources: Mapping[str, Source]
    tmpfs_bytes: Mapping[str, int]


def make_volumes(task: Task, objects: Objects, layout: Layout) -> Volumes:
    """All volumes that are mounted or hold the bundle. May be done again. InputFault, and OSError when the node can't."""
    used = mounted_volumes(task)
    maker = _Maker(task, objects, layout)
    wanted = [one for one in task.spec.volumes if one.name in used]
    in_memory = {one.name: _memory_bytes(one) for one in wanted if _is_memory(one)}
    return Volumes({one.name: maker.make(one) for one in wanted if not _is_memory(one)}, in_memory)


def mounts_of(task: Task, volumes: Volumes) -> tuple[tuple[Mount, ...], tuple[Tmpfs, ...]]:
    """Where they appear. InputFault InvalidPath, InvalidVolume."""
    mounts, tmpfs = [], []
    for one in task.spec.volume_mounts:
        target = target_path(one.mount_path, f"volumeMounts {one.name}")
        if one.name in volumes.tmpfs_bytes:
            tmpfs.append(Tmpfs(target, volumes.tmpfs_bytes[one.name]))
        else:
            mounts.append(_mount(one, target, volumes.sources[one.name]))
    names = [one.name for one in task.spec.volume_mounts]
    for one in task.spec.volume_mounts:
        if one.name in volumes.tmpfs_bytes and (one.sub_path or one.read_only or names.count(one.name) > 1):
            words = "an emptyDir of medium Memory is mounted once, whole and writable"
            raise InputFault("InvalidVolume", f"volumeMounts {one.name}: {words}")
    return tuple(mounts), tuple(tmpfs)


def target_path(path: str, where: str) -> str:
    """A path in the container, plain. InputFault InvalidPath for the root and for '..'."""
    plain = posixpath.normpath(f"/{path.lstrip('/')}")
    if plain == "/" or ".." in path.split("/") or "\0" in path:
        raise InputFault("InvalidPath", f"{where}: nothing can be mounted at {path!r}")
    return plain


def _mount(one: VolumeMount, target: str, source: Source) -> Mount:
    where = f"volumeMounts {one.name}"
    parts = parts_of(one.sub_path, f"{where}: subPath")
    read_only = one.read_only or source.read_only
    if not parts:
        return Mount(source.node, target, read_only)
    if not source.own:
        # Between our look and the mount, whoever writes there could put a link to anywhere in its place.
        words = "subPath is for emptyDir, configMap and secret: another who writes this volume could lead it elsewhere"
        raise InputFault(
            "InvalidVolume", f"{where}: {words}. Mount the volume whole, or name a path or a cache of its own"
        )
    try:
        if not source.read_only:
            make_beneath(source.agent, parts, _OPEN_TO_ALL)
        with opened_beneath(source.agent, parts):
            return Mount("/".join((source.node.rstrip("/"), *parts)), target, read_only)
    except FileNotFoundError as error:
        raise InputFault("InvalidPath", f"{where}: the volume has no {one.sub_path}") from error
    except OSError as error:
        if error.errno not in _LINKS:
            raise
        raise InputFault("InvalidPath", f"{where}: {one.sub_path} is no folder below the volume") from error


def _is_memory(volume: Volume) -> bool:
    return volume.empty_dir is not None and volume.empty_dir.medium == "Memory"


def _memory_bytes(volume: Volume) -> int:
    limit = volume.empty_dir.size_limit if volume.empty_dir is not None else None
    return amount("memory", limit) if limit is not None else _USUAL_MEMORY_BYTES


class _Maker:
    def __init__(self, task: Task, objects: Objects, layout: Layout) -> None:
        assert task.spec.binding is not None
        context = task.spec.security_context
        self._owner = Owner(context.run_as_user, context.run_as_group)
        self._objects, self._layout = objects, layout
        self._namespace = task.metadata.namespace
        self._attempt = (task.metadata.uid, task.spec.binding.attempt)

    def make(self, volume: Volume) -> Source:
        if volume.host_path is not None:
            return self._host_path(volume.name, volume.host_path)
        if volume.config_map is not None:
            return self._config_map(volume.name, volume.config_map)
        if volume.secret is not None:
            return self._secret(volume.name, volume.secret)
        if volume.persistent_volume_claim is not None:
            return self._claim(volume.name, volume.persistent_volume_claim.claim_name,
                               volume.persistent_volume_claim.read_only)  # fmt: skip
        if volume.node_cache is not None:
            return _open_folder(self._layout.node_cache(self._namespace, volume.node_cache.name), own=False)
        return _open_folder(self._layout.attempt(*self._attempt) / "volumes" / volume.name, own=True)

    def _config_map(self, name: str, wanted: ConfigMapVolume) -> Source:
        want = ObjectKind.CONFIG_MAP, wanted.name
        files = chosen_files(self._objects, want, wanted.items, name, optional=wanted.optional)
        target = self._layout.attempt(*self._attempt) / "files" / name
        write_files(target, files, wanted.default_mode, self._owner)
        return Source(target, str(target), read_only=True, own=True)

    def _secret(self, name: str, wanted: SecretVolume) -> Source:
        want = ObjectKind.SECRET, wanted.secret_name
        files = chosen_files(self._objects, want, wanted.items, name, optional=wanted.optional)
        root = self._layout.secrets
        if root is None:
            words = f"volume {name}: the worker Pod has no memory for Secrets' files: it was made by an older operator"
            raise InputFault("SecretsUnmounted", words, Whose.PLATFORM)
        uid, attempt = self._attempt
        write_files(root.agent / uid / str(attempt) / name, files, wanted.default_mode, self._owner)
        return Source(root.agent / uid / str(attempt) / name, f"{root.node}/{uid}/{attempt}/{name}", True, True)

    def _claim(self, name: str, claim: str, read_only: bool) -> Source:
        root = self._layout.claim(claim)
        if root is None:
            words = f"volume {name}: the worker Pod does not mount the PersistentVolumeClaim {claim}"
            raise InputFault("PolicyDenied", f"{words}: it mounts what worker.volumeClaims named when it was made")
        return Source(root.agent, root.node, read_only or root.read_only)

    def _host_path(self, name: str, wanted: HostPathVolume) -> Source:
        where = f"volume {name}: hostPath {wanted.path}"
        found = self._layout.host("/" + "/".join(parts_of(wanted.path.lstrip("/"), where)))
        if found is None:
            allowed = ", ".join(self._layout.allowed_host_paths) or "none"
            words = f"{where} is in no path that the worker Pod was given ({allowed})"
            raise InputFault("PolicyDenied", f"{words}: policy.allowedHostPaths when it was made")
        root, parts = found
        try:
            if wanted.type == "DirectoryOrCreate":
                make_beneath(root.agent, parts, 0o755)
            mode = _mode_of(root.agent, parts)
        except FileNotFoundError as error:
            raise InputFault("HostPathMissing", f"{where} is not on the node", Whose.ABSENT) from error
        except OSError as error:
            if error.errno not in _LINKS:
                raise
            words = f"{where} leads through a symbolic link or a file: name the path that it leads to"
            raise InputFault("HostPathInvalid", words) from error
        if not _is_of_type(mode, wanted.type):
            raise InputFault("HostPathInvalid", f"{where} is no {'file' if wanted.type == 'File' else 'directory'}")
        return Source(root.agent.joinpath(*parts), "/".join((root.node.rstrip("/"), *parts)) or "/", root.read_only)


def _mode_of(root: Path, parts: tuple[str, ...]) -> int:
    if not parts:
        return root.stat().st_mode
    with opened_beneath(root, parts) as found:
        return os.fstat(found).st_mode


def _is_of_type(mode: int, wanted: str) -> bool:
    if wanted == "File":
        return stat.S_ISREG(mode)
    return not wanted or stat.S_ISDIR(mode)


def _open_folder(path: Path, *, own: bool) -> Source:
    """For a user that we don't know: as a Pod's emptyDir is."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(_OPEN_TO_ALL)
    return Source(path, str(path), own=own)
