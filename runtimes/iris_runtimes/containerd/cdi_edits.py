"""CDI's edits made to an OCI spec. Pure but for one look at each device node whose numbers the vendor's file leaves out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iris_runtimes.containerd.devices import DeviceNode, look_at_device
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import Device

_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_KNOWN = {"env", "deviceNodes", "hooks", "mounts", "additionalGids", "intelRdt", "netDevices"}
_PATH_OF_MOUNT = "destination"
Look = Callable[[Device], DeviceNode]


def apply_edits(spec: dict[str, Any], edits: Sequence[Mapping[str, Any]], look: Look = look_at_device) -> None:
    """Edit the spec in place, in order. NodeFault when a file asks for what is not there, or not understood."""
    for one in edits:
        unknown = set(one) - _KNOWN
        if unknown:
            raise NodeFault(f"a CDI file asks for {', '.join(sorted(unknown))}, which is not understood here")
        _add_env(spec, one.get("env") or [])
        for node in one.get("deviceNodes") or []:
            _add_device(spec, node, look)
        if one.get("mounts"):
            _add_mounts(spec, one["mounts"])
        for hook in one.get("hooks") or []:
            _add_hook(spec, hook)
        _add_groups(spec, one.get("additionalGids") or [])
        if one.get("intelRdt"):
            spec["linux"]["intelRdt"] = dict(one["intelRdt"])
        for device in one.get("netDevices") or []:
            spec["linux"].setdefault("netDevices", {})[device["hostInterfaceName"]] = {"name": device["name"]}


def _add_env(spec: dict[str, Any], pairs: Sequence[str]) -> None:
    names = {pair.partition("=")[0] for pair in pairs}
    kept = [pair for pair in spec["process"]["env"] if pair.partition("=")[0] not in names]
    spec["process"]["env"] = [*kept, *pairs]


def _add_device(spec: dict[str, Any], node: Mapping[str, Any], look: Look) -> None:
    path = str(node["path"])
    kind, major, minor = node.get("type", ""), node.get("major", 0), node.get("minor", 0)
    if not kind or (major == 0 and kind != "p"):
        seen = look(Device(str(node.get("hostPath") or path), path))
        kind, major, minor = seen.kind, seen.major, seen.minor
    device: dict[str, Any] = {"path": path, "type": kind, "major": major, "minor": minor}
    if node.get("fileMode") is not None:
        device["fileMode"] = node["fileMode"]
    for name in ("uid", "gid"):
        owner = node[name] if node.get(name) is not None else spec["process"]["user"].get(name)
        if owner or node.get(name) is not None:
            device[name] = owner
    linux = spec["linux"]
    linux["devices"] = [*(one for one in linux["devices"] if one["path"] != path), device]
    access = node.get("permissions") or "rwm"
    if kind in ("b", "c") and access != "none":
        rule = {"allow": True, "type": kind, "major": major, "minor": minor, "access": access}
        linux["resources"]["devices"] = [*linux["resources"]["devices"], rule]


def _add_mounts(spec: dict[str, Any], mounts: Sequence[Mapping[str, Any]]) -> None:
    """The vendor's replace ours of the same place; then the shallow go before the deep, for else they would hide them."""
    new = [
        {
            "source": str(one["hostPath"]),
            _PATH_OF_MOUNT: str(one["containerPath"]),
            "type": one.get("type") or "bind",
            "options": list(one.get("options") or ["rbind", "rprivate", "ro"]),
        }
        for one in mounts
    ]
    places = {one[_PATH_OF_MOUNT] for one in new}
    kept = [one for one in spec["mounts"] if one[_PATH_OF_MOUNT] not in places]
    spec["mounts"] = sorted([*kept, *new], key=lambda one: one[_PATH_OF_MOUNT].rstrip("/").count("/"))


def _add_hook(spec: dict[str, Any], hook: Mapping[str, Any]) -> None:
    name = hook["hookName"]
    if name not in _HOOKS:
        raise NodeFault(f"a CDI file asks for the hook {name!r}, which no runtime has")
    body = {key: hook[key] for key in ("path", "args", "env", "timeout") if hook.get(key) is not None}
    spec.setdefault("hooks", {}).setdefault(name, []).append(body)


def _add_groups(spec: dict[str, Any], groups: Sequence[int]) -> None:
    user = spec["process"]["user"]
    user["additionalGids"] = list(dict.fromkeys((*user["additionalGids"], *(one for one in groups if one))))
