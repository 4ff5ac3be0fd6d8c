from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from iris_runtimes.containerd.cdi import CdiRegistry
from iris_runtimes.containerd.cdi_edits import apply_edits
from iris_runtimes.containerd.devices import DeviceNode
from iris_runtimes.containerd.image_config import User
from iris_runtimes.containerd.oci_spec import build_spec
from iris_runtimes.errors import InvalidSpec, NodeFault
from iris_runtimes.protocol import Device, Mount
from tests.unit.iris_runtimes.containerd.build import config, spec

GPU = "nvidia.com/gpu"


def write(path: Path, devices: dict[str, dict[str, Any]], kind: str = GPU, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": listed, **more}))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [tmp_path / "etc", tmp_path / "run"]


def test_a_files_common_edits_come_once_before_the_devices(folders: list[Path]) -> None:
    write(folders[0] / "gpu.json", {"0": {"env": ["A=0"]}, "1": {"env": ["A=1"]}}, containerEdits={"env": ["ALL=1"]})
    found = CdiRegistry(folders).edits([f"{GPU}=1", f"{GPU}=0"])
    assert found == [{"env": ["ALL=1"]}, {"env": ["A=1"]}, {"env": ["A=0"]}]


def test_yaml_is_read(folders: list[Path]) -> None:
    folders[1].mkdir(parents=True)
    text = f"cdiVersion: 0.5.0\nkind: {GPU}\ndevices:\n- name: all\n  containerEdits:\n    env: [B=2]\n"
    (folders[1] / "gpu.yaml").write_text(text)
    assert CdiRegistry(folders).edits([f"{GPU}=all"]) == [{}, {"env": ["B=2"]}]


def test_the_later_folder_wins(folders: list[Path]) -> None:
    write(folders[0] / "gpu.json", {"0": {"env": ["FROM=etc"]}})
    write(folders[1] / "gpu.json", {"0": {"env": ["FROM=run"]}})
    assert CdiRegistry(folders).edits([f"{GPU}=0"])[1] == {"env": ["FROM=run"]}


def test_twice_in_one_folder_is_an_error(folders: list[Path]) -> None:
    write(folders[0] / "a.json", {"0": {}})
    write(folders[0] / "b.json", {"0": {}})
    with pytest.raises(NodeFault, match=r"twice.*a\.json.*b\.json"):
        CdiRegistry(folders).edits([f"{GPU}=0"])


def test_a_changed_file_is_read_again(folders: list[Path]) -> None:
    path = folders[0] / "gpu.json"
    registry = CdiRegistry(folders)
    assert not registry.of_kind(GPU)
    write(path, {"0": {}})
    assert set(registry.of_kind(GPU)) == {f"{GPU}=0"}
    write(path, {"1": {}})
    os.utime(path, ns=(1, 1))
    assert set(registry.of_kind(GPU)) == {f"{GPU}=1"}
    path.unlink()
    assert not registry.of_kind(GPU)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"kind": "a/b"}', '{"cdiVersion": "2.0.0", "kind": "a/b", "devices": []}'],
)  # fmt: skip
def test_a_broken_file_is_named_only_when_it_matters(folders: list[Path], text: str) -> None:
    write(folders[0] / "gpu.json", {"0": {}})
    (folders[0] / "other.json").write_text(text)
    registry = CdiRegistry(folders)
    assert registry.edits([f"{GPU}=0"]) == [{}, {}]
    with pytest.raises(NodeFault, match=r"a/b=0 \(unreadable: .*other\.json"):
        registry.edits(["a/b=0"])


@pytest.mark.parametrize("name", ["", "gpu", "nvidia.com/gpu", "nvidia.com/gpu=", "/gpu=0", "a/b=0/../x"])
def test_no_name_of_a_device(folders: list[Path], name: str) -> None:
    with pytest.raises(InvalidSpec, match=r"vendor\.com/class=name"):
        CdiRegistry(folders).edits([name])


def edited(*edits: dict[str, Any], user: User | None = None, **changes: Any) -> dict[str, Any]:
    body = build_spec(spec(**changes), config(), user or User(), [], cgroup_v2=False)
    apply_edits(body, edits, lambda device: DeviceNode(device, "c", 195, len(device.host_path)))
    return body


def test_environment_replaces() -> None:
    found = edited({"env": ["A=cdi", "NEW=1"]}, env=[("A", "task"), ("B", "task")])["process"]["env"]
    assert found[1:] == ["B=task", "A=cdi", "NEW=1"]


def test_a_device_node_is_looked_at_unless_told() -> None:
    looked = {"path": "/dev/nvidia0", "hostPath": "/dev/host"}
    told = {"path": "/dev/nv1", "type": "c", "major": 9, "minor": 8, "fileMode": 0o600, "permissions": "rw", "gid": 44}
    body = edited({"deviceNodes": [looked, told]}, user=User(7, 0))
    assert body["linux"]["devices"] == [
        {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 9, "uid": 7},
        {"path": "/dev/nv1", "type": "c", "major": 9, "minor": 8, "fileMode": 0o600, "uid": 7, "gid": 44},
    ]
    rules = body["linux"]["resources"]["devices"][-2:]
    assert rules == [
        {"allow": True, "type": "c", "major": 195, "minor": 9, "access": "rwm"},
        {"allow": True, "type": "c", "major": 9, "minor": 8, "access": "rw"},
    ]


def test_a_node_without_permissions_gets_no_rule() -> None:
    before = edited()["linux"]["resources"]["devices"]
    node = {"path": "/dev/x", "type": "c", "major": 9, "minor": 8, "permissions": "none"}
    assert edited({"deviceNodes": [node]})["linux"]["resources"]["devices"] == before


def test_mounts_replace_and_the_shallow_go_first() -> None:
    mounts = [
        {"hostPath": "/driver/lib/cuda", "containerPath": "/usr/lib/cuda", "options": ["ro", "bind"]},
        {"hostPath": "/driver", "containerPath": "/opt"},
    ]
    found = edited({"mounts": mounts}, mounts=[Mount("/mine", "/opt"), Mount("/data", "/usr/lib")])["mounts"]
    places = [one["destination"] for one in found]
    assert places.index("/opt") < places.index("/usr/lib") < places.index("/usr/lib/cuda")
    opt = [one for one in found if one["destination"] == "/opt"]
    assert [(one["source"], one["options"]) for one in opt] == [("/driver", ["rbind", "rprivate", "ro"])]


def test_hooks_groups_and_the_rest() -> None:
    hook = {"hookName": "createContainer", "path": "/bin/h", "args": ["h"], "timeout": 3}
    body = edited(
        {"hooks": [hook], "additionalGids": [0, 44], "intelRdt": {"closID": "a"},
         "netDevices": [{"hostInterfaceName": "ib0", "name": "net0"}]},
        {"hooks": [hook], "additionalGids": [44]},
    )  # fmt: skip
    assert body["hooks"] == {"createContainer": [{"path": "/bin/h", "args": ["h"], "timeout": 3}] * 2}
    assert body["process"]["user"]["additionalGids"] == [44]
    assert body["linux"]["intelRdt"] == {"closID": "a"}
    assert body["linux"]["netDevices"] == {"ib0": {"name": "net0"}}


@pytest.mark.parametrize("edits", [{"seccomp": {}}, {"hooks": [{"hookName": "later", "path": "/x"}]}])
def test_what_is_not_understood_is_said(edits: dict[str, Any]) -> None:
    with pytest.raises(NodeFault):
        edited(edits)


def test_a_missing_device_node_is_the_nodes_fault() -> None:
    body = build_spec(spec(), config(), User(), [], cgroup_v2=False)
    with pytest.raises(NodeFault):
        apply_edits(body, [{"deviceNodes": [{"path": "/dev/no-such"}]}])
    assert Device("/dev/no-such", "/dev/no-such").permissions == "rw"
