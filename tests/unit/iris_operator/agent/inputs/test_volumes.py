"""Volumes on a node, in folders that stand for the worker Pod's mounts."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.inputs.layout import Layout, Root
from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.agent.inputs.volumes import make_volumes, mounts_of, target_path
from iris_operator.agent.inputs.wants import ObjectKind, Objects
from iris_operator.api.task import Task
from iris_runtimes.protocol import Mount, Tmpfs
from tests.unit.iris_operator.agent.build import task

_OBJECTS = Objects(
    "default",
    {
        (ObjectKind.CONFIG_MAP, "c"): {"a.conf": b"A", "b.conf": b"B"},
        (ObjectKind.SECRET, "s"): {"key": b"K"},
    },
)


@dataclass(frozen=True)
class Folders(Layout):
    """A layout whose mounts lie below `home` for the agent, and at their own names on the node."""

    home: Path = field(default=Path("/nowhere"))

    @property
    def secrets(self) -> Root | None:
        return self._here(super().secrets)

    def claim(self, name: str) -> Root | None:
        return self._here(super().claim(name))

    def host(self, path: str) -> tuple[Root, tuple[str, ...]] | None:
        found = super().host(path)
        here = self._here(found[0]) if found is not None else None
        return (here, found[1]) if here is not None and found is not None else None

    def _here(self, root: Root | None) -> Root | None:
        if root is None:
            return None
        agent = self.home / str(root.agent).lstrip("/")
        agent.mkdir(parents=True, exist_ok=True)
        return Root(agent, root.node, root.read_only)


@pytest.fixture
def layout(tmp_path: Path) -> Folders:
    given = (
        Mount("/pods/1/secrets", "/run/iris/secrets"),
        Mount("/pods/1/data", "/var/lib/iris/claims/data"),
        Mount("/pods/1/models", "/var/lib/iris/claims/models", read_only=True),
        Mount("/data", "/var/lib/iris/host/data"),
        Mount("/elsewhere", "/var/lib/iris/host/linked"),
        Mount("/var/cache/iris", "/var/cache/iris"),
    )
    return Folders(tmp_path / "cache", given, tmp_path / "pod")


def _with(*volumes: dict[str, Any], mounts: list[dict[str, Any]] | None = None, **spec: Any) -> Task:
    usual = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    return task(volumes=list(volumes), volumeMounts=usual if mounts is None else mounts, **spec)


def _make(found: Task, layout: Layout) -> tuple[tuple[Mount, ...], tuple[Tmpfs, ...]]:
    return mounts_of(found, make_volumes(found, _OBJECTS, layout))


def _one(found: Task, layout: Layout) -> Mount:
    ((mount,), _) = _make(found, layout)
    return mount


def _content(path: Path) -> dict[str, str]:
    return {str(one.relative_to(path)): one.read_text() for one in path.rglob("*") if one.is_file()}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_empty_dir_is_the_attempts_own_and_open_to_all(layout: Folders) -> None:
    mount = _one(_with({"name": "v", "emptyDir": {}}), layout)
    assert mount == Mount(f"{layout.cache}/attempts/uid-t/1/volumes/v", "/v")
    assert _mode(Path(mount.host_path)) == 0o777


def test_made_again_it_keeps_what_is_in_it(layout: Folders) -> None:
    found = _with({"name": "v", "emptyDir": {}})
    path = Path(_one(found, layout).host_path) / "x"
    path.write_text("kept")
    _one(found, layout)
    assert path.read_text() == "kept"


def test_memory_is_a_tmpfs(layout: Folders) -> None:
    mounts, tmpfs = _make(
        _with(
            {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
            {"name": "w", "emptyDir": {"medium": "Memory"}},
        ),
        layout,
    )
    assert (mounts, tmpfs) == ((), (Tmpfs("/v", 8 * 2**20), Tmpfs("/w", 64 * 2**20)))


def test_config_map_files(layout: Folders) -> None:
    mount = _one(_with({"name": "v", "configMap": {"name": "c", "defaultMode": 0o440}}), layout)
    assert (mount.container_path, mount.read_only) == ("/v", True)
    path = Path(mount.host_path)
    assert _content(path) == {"a.conf": "A", "b.conf": "B"}
    assert (_mode(path / "a.conf"), _mode(path)) == (0o440, 0o755)


def test_items_choose_and_place(layout: Folders) -> None:
    items = [{"key": "b.conf", "path": "etc/deep/b"}]
    mount = _one(_with({"name": "v", "configMap": {"name": "c", "items": items}}), layout)
    assert _content(Path(mount.host_path)) == {"etc/deep/b": "B"}


def test_made_again_files_are_as_the_object_is_now(layout: Folders) -> None:
    found = _with({"name": "v", "configMap": {"name": "c"}})
    path = Path(_one(found, layout).host_path)
    now = Objects("default", {(ObjectKind.CONFIG_MAP, "c"): {"new": b"N"}})
    make_volumes(found, now, layout)
    assert _content(path) == {"new": "N"}


def test_secret_files_lie_on_the_pods_tmpfs_and_nowhere_else(layout: Folders, tmp_path: Path) -> None:
    mount = _one(_with({"name": "v", "secret": {"secretName": "s"}}), layout)
    assert mount == Mount("/pods/1/secrets/uid-t/1/v", "/v", read_only=True)
    assert _content(tmp_path / "pod/run/iris/secrets/uid-t/1/v") == {"key": "K"}
    assert not layout.cache.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_belong_to_whom_the_command_runs_as(layout: Folders, tmp_path: Path) -> None:
    _one(
        _with(
            {"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}},
            securityContext={"runAsUser": 1000, "runAsGroup": 1001},
        ),
        layout,
    )
    found = (tmp_path / "pod/run/iris/secrets/uid-t/1/v/key").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1000, 1001, 0o400)


def test_absent_objects_that_may_be_are_empty_folders(layout: Folders) -> None:
    mount = _one(_with({"name": "v", "configMap": {"name": "nope", "optional": True}}), layout)
    assert Path(mount.host_path).is_dir()
    assert _content(Path(mount.host_path)) == {}


CLAIMS = {
    "writable": ("data", {}, Mount("/pods/1/data", "/v")),
    "read-only as the Task says": ("data", {"readOnly": True}, Mount("/pods/1/data", "/v", True)),
    "read-only as the worker has it": ("models", {}, Mount("/pods/1/models", "/v", True)),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claim(layout: Folders, name: str) -> None:
    claim, more, wanted = CLAIMS[name]
    assert _one(_with({"name": "v", "persistentVolumeClaim": {"claimName": claim, **more}}), layout) == wanted


def test_node_cache_is_the_namespaces(layout: Folders) -> None:
    shared = f"{layout.cache}/shared/default"
    assert _one(_with({"name": "v", "nodeCache": {}}), layout) == Mount(f"{shared}/default", "/v")
    assert _one(_with({"name": "v", "nodeCache": {"name": "pip"}}), layout) == Mount(f"{shared}/pip", "/v")
    assert _mode(Path(shared) / "pip") == 0o777


HOST = {
    "a folder": ({"path": "/data/sets"}, "/data/sets"),
    "the allowed path itself": ({"path": "/data/"}, "/data"),
    "a folder, said so": ({"path": "/data/sets", "type": "Directory"}, "/data/sets"),
    "a file": ({"path": "/data/file", "type": "File"}, "/data/file"),
    "a folder to make": ({"path": "/data/new/deep", "type": "DirectoryOrCreate"}, "/data/new/deep"),
    "where the node's path leads": ({"path": "/linked"}, "/elsewhere"),
}


@pytest.fixture
def host(layout: Folders, tmp_path: Path) -> Path:
    data = tmp_path / "pod/var/lib/iris/host/data"
    (data / "sets").mkdir(parents=True)
    (data / "file").write_text("x")
    (data / "out").symlink_to("/etc")
    return data


@pytest.mark.parametrize("name", HOST)
def test_host_path(layout: Folders, host: Path, name: str) -> None:
    wanted, node = HOST[name]
    assert _one(_with({"name": "v", "hostPath": wanted}), layout) == Mount(node, "/v")


def test_a_folder_is_made_on_the_node(layout: Folders, host: Path) -> None:
    _one(_with({"name": "v", "hostPath": {"path": "/data/new/deep", "type": "DirectoryOrCreate"}}), layout)
    assert _mode(host / "new/deep") == 0o755


_TMPFS = {"name": "v", "emptyDir": {"medium": "Memory"}}
_MOUNT = {"name": "v", "mountPath": "/v"}
FAULTS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str, Whose]] = {
    "another path of the node": ({"hostPath": {"path": "/etc"}}, [_MOUNT], "PolicyDenied", Whose.USER),
    "a like beginning": ({"hostPath": {"path": "/database"}}, [_MOUNT], "PolicyDenied", Whose.USER),
    "through a link": ({"hostPath": {"path": "/data/out/ssl"}}, [_MOUNT], "HostPathInvalid", Whose.USER),
    "a link": ({"hostPath": {"path": "/data/out"}}, [_MOUNT], "HostPathInvalid", Whose.USER),
    "made through a link": (
        {"hostPath": {"path": "/data/out/x", "type": "DirectoryOrCreate"}}, [_MOUNT], "HostPathInvalid", Whose.USER),
    "not there": ({"hostPath": {"path": "/data/nope"}}, [_MOUNT], "HostPathMissing", Whose.ABSENT),
    "a file for a folder": (
        {"hostPath": {"path": "/data/file", "type": "Directory"}}, [_MOUNT], "HostPathInvalid", Whose.USER),
    "a folder for a file": (
        {"hostPath": {"path": "/data/sets", "type": "File"}}, [_MOUNT], "HostPathInvalid", Whose.USER),
    "a claim that is not mounted": (
        {"persistentVolumeClaim": {"claimName": "other"}}, [_MOUNT], "PolicyDenied", Whose.USER),
    "an absent ConfigMap": ({"configMap": {"name": "nope"}}, [_MOUNT], "ConfigMapNotFound", Whose.ABSENT),
    "an absent key": (
        {"secret": {"secretName": "s", "items": [{"key": "nope", "path": "x"}]}}, [_MOUNT], "KeyNotFound", Whose.ABSENT),
    "items on top of each other": (
        {"configMap": {"name": "c", "items": [{"key": "a.conf", "path": "x"}, {"key": "b.conf", "path": "x/y"}]}},
        [_MOUNT], "InvalidPath", Whose.USER),
    "memory mounted twice": (
        {"emptyDir": {"medium": "Memory"}}, [_MOUNT, {"name": "v", "mountPath": "/w"}], "InvalidVolume", Whose.USER),
    "memory by subPath": (
        {"emptyDir": {"medium": "Memory"}}, [{**_MOUNT, "subPath": "x"}], "InvalidVolume", Whose.USER),
    "a cache by subPath": ({"nodeCache": {}}, [{**_MOUNT, "subPath": "x"}], "InvalidVolume", Whose.USER),
    "a claim by subPath": (
        {"persistentVolumeClaim": {"claimName": "data"}}, [{**_MOUNT, "subPath": "x"}], "InvalidVolume", Whose.USER),
    "subPath that is not there": ({"configMap": {"name": "c"}}, [{**_MOUNT, "subPath": "x"}], "InvalidPath", Whose.USER),
    "over everything": ({"emptyDir": {}}, [{"name": "v", "mountPath": "//"}], "InvalidPath", Whose.USER),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault(layout: Folders, host: Path, name: str) -> None:
    volume, mounts, reason, whose = FAULTS[name]
    with pytest.raises(InputFault) as caught:
        _make(_with({"name": "v", **volume}, mounts=mounts), layout)
    assert (caught.value.reason, caught.value.whose) == (reason, whose)
    assert "v" in str(caught.value)


def test_without_the_pods_tmpfs_no_secret_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputFault) as caught:
        _make(_with({"name": "v", "secret": {"secretName": "s"}}), Layout(tmp_path))
    assert (caught.value.reason, caught.value.whose) == ("SecretsUnmounted", Whose.PLATFORM)
    assert not list(tmp_path.iterdir())


def test_sub_path_of_an_empty_dir_is_made(layout: Folders) -> None:
    found = _with({"name": "v", "emptyDir": {}}, mounts=[{**_MOUNT, "subPath": "a/b", "readOnly": True}])
    mount = _one(found, layout)
    assert mount == Mount(f"{layout.cache}/attempts/uid-t/1/volumes/v/a/b", "/v", True)
    assert _mode(Path(mount.host_path)) == 0o777


def test_sub_path_of_a_config_map_is_a_file(layout: Folders) -> None:
    found = _with({"name": "v", "configMap": {"name": "c"}}, mounts=[{**_MOUNT, "subPath": "a.conf"}])
    assert Path(_one(found, layout).host_path).read_text() == "A"


def test_what_is_not_mounted_is_not_looked_at(layout: Folders) -> None:
    assert _make(_with({"name": "v", "hostPath": {"path": "/etc"}}, mounts=[]), layout) == ((), ())


def test_target_is_plain() -> None:
    assert target_path("//a/./b/", "x") == "/a/b"
