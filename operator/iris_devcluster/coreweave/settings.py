"""How the simulated CoreWeave behaves: limits, delays and faults, kept in one ConfigMap as YAML.

    nodeCpu: "2"                  # what a node offers at most, whatever its type
    nodeMemory: 4Gi
    zone: US-EAST-04A
    nodesPerRack: 2               # instead of the vendor's 18
    replaceSeconds: 30            # a machine without power for so long is exchanged; absent: never
    defaults:      {bootSeconds: 2}
    instanceTypes: {gd-8xh100ib-i128: {quota: 4, capacity: 1}}
    nodePools:     {my-pool: {boot: never}}
    nodes:         {g1a2b3c: {power: "off", gpus: 7}}

A node's own setting wins over its pool's, that over its type's, that over the defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iris_devcluster.coreweave import quantity
from iris_devcluster.errors import DevclusterError

CONFIG_MAP = "coreweave-simulator"
NAMESPACE = "kube-system"
KEY = "settings.yaml"

BOOT_MODES = ("normal", "slow", "never")
POWER_STATES = ("on", "off", "frozen")


class SettingsError(DevclusterError, ValueError):
    """A setting that is not understood; the message names it and what would be."""


@dataclass(frozen=True)
class Overrides:
    """One layer; None leaves a value to the layer below."""

    boot_seconds: float | None = None
    """From assignment until the machine has power."""
    boot: str | None = None
    """normal; slow (ten times as long); never."""
    power: str | None = None
    """on; off (a power cut: the Node object stays); frozen (the kubelet stops: NotReady)."""
    gpus: int | None = None
    """GPUs that the node has, at most its type's."""
    sick_gpus: int | None = None
    """How many of them report Unhealthy."""
    quota: int | None = None
    """Nodes of the type that the organization may have; 0 is the vendor's NotSet. Not for pools and nodes."""
    capacity: int | None = None
    """Machines of the type in the zone. Not for pools and nodes."""

    def over(self, lower: Overrides) -> Overrides:
        """These values, and the lower layer's where these say nothing."""
        return Overrides(**{name: value if (value := getattr(self, name)) is not None else getattr(lower, name)
                            for name in _FIELDS})  # fmt: skip


_FIELDS = tuple(item.name for item in dataclasses.fields(Overrides))
_LIMITS = ("quota", "capacity")
_BASE = Overrides(boot_seconds=2.0, boot="normal", power="on", sick_gpus=0)


@dataclass(frozen=True)
class Settings:
    """All layers, and what holds for the whole zone."""

    defaults: Overrides = _BASE
    instance_types: Mapping[str, Overrides] = field(default_factory=dict)
    node_pools: Mapping[str, Overrides] = field(default_factory=dict)
    nodes: Mapping[str, Overrides] = field(default_factory=dict)
    node_cpu: str = "2"
    node_memory: str = "4Gi"
    zone: str = "US-EAST-04A"
    nodes_per_rack: int | None = None
    replace_seconds: float | None = None

    def of(self, instance_type: str, pool: str = "", node: str = "") -> Overrides:
        """The values in force; boot_seconds, boot, power and sick_gpus are never None."""
        none = Overrides()
        layers = (self.node_pools.get(pool, none), self.instance_types.get(instance_type, none), self.defaults, _BASE)
        merged = self.nodes.get(node, none)
        for layer in layers:
            merged = merged.over(layer)
        return merged


def parse(data: object) -> Settings:
    """From the ConfigMap's YAML, loaded; SettingsError on anything not understood."""
    if data is None:
        return Settings()
    if not isinstance(data, Mapping):
        raise SettingsError("settings must be a mapping")
    known = {"defaults", "instanceTypes", "nodePools", "nodes", *_ZONE}
    _refuse_unknown(data, known, "settings")
    zone = {attribute: convert(data[key], key) for key, (attribute, convert) in _ZONE.items() if data.get(key)}
    return Settings(
        defaults=_overrides(data.get("defaults") or {}, "defaults", limits=True).over(_BASE),
        instance_types=_layer(data, "instanceTypes", limits=True),
        node_pools=_layer(data, "nodePools", limits=False),
        nodes=_layer(data, "nodes", limits=False),
        **zone,
    )


def _layer(data: Mapping[str, Any], key: str, *, limits: bool) -> dict[str, Overrides]:
    return {name: _overrides(row or {}, f"{key}.{name}", limits=limits) for name, row in (data.get(key) or {}).items()}


def _overrides(row: Mapping[str, Any], where: str, *, limits: bool) -> Overrides:
    names = {_camel(name): name for name in _FIELDS if limits or name not in _LIMITS}
    _refuse_unknown(row, set(names), where)
    values = {
        names[key]: _CHECK[names[key]](value, f"{where}.{key}") for key, value in row.items() if value is not None
    }
    return Overrides(**values)


def _refuse_unknown(row: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(row) - known)
    if unknown:
        raise SettingsError(f"{where}: unknown {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _seconds(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise SettingsError(f"{where}: {value!r} is not a number of seconds")
    return float(value)


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingsError(f"{where}: {value!r} is not a whole number of 0 or more")
    return value


def _quantity(value: object, where: str) -> str:
    try:
        quantity.parse(str(value))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    return str(value)


def _boot(value: object, where: str) -> str:
    return _one_of(value, where, BOOT_MODES)


def _power(value: object, where: str) -> str:
    # YAML 1.1 reads a bare on and off as booleans.
    return _one_of(
        {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value, where, POWER_STATES
    )


def _one_of(value: object, where: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise SettingsError(f"{where}: {value!r} is none of {', '.join(choices)}")
    return str(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{where}: {value!r} is not text")
    return value


_CHECK: dict[str, Any] = {
    "boot_seconds": _seconds,
    "boot": _boot,
    "power": _power,
    "gpus": _count,
    "sick_gpus": _count,
    "quota": _count,
    "capacity": _count,
}
_ZONE: dict[str, Any] = {
    "nodeCpu": ("node_cpu", _quantity),
    "nodeMemory": ("node_memory", _quantity),
    "zone": ("zone", _text),
    "nodesPerRack": ("nodes_per_rack", _count),
    "replaceSeconds": ("replace_seconds", _seconds),
}
