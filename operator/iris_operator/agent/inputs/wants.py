"""Which Secrets and ConfigMaps a Task needs, and what was found of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.api.task import Task


class ObjectKind(StrEnum):
    """Kinds that hold keys and values."""

    SECRET = "Secret"
    CONFIG_MAP = "ConfigMap"


Want = tuple[ObjectKind, str]
"""Kind and name, in the Task's namespace."""


@dataclass(frozen=True)
class Objects:
    """What was read in one namespace. Absent objects are not in `found`. The repr shows no values."""

    namespace: str
    found: Mapping[Want, Mapping[str, bytes]] = field(default_factory=dict, repr=False)

    def data(self, want: Want, used_by: str, *, optional: bool = False) -> Mapping[str, bytes] | None:
        """All keys; None when it is absent and may be. InputFault when it may not; `used_by`: the field that names it."""
        data = self.found.get(want)
        if data is None and not optional:
            kind, name = want
            raise InputFault(
                f"{kind}NotFound", f"{used_by}: there is no {kind} {name} in namespace {self.namespace}", Whose.ABSENT
            )
        return data

    def value(self, want: Want, key: str, used_by: str, *, optional: bool = False) -> bytes | None:
        """One key's value; None when the object or the key is absent and may be. InputFault when it may not."""
        data = self.data(want, used_by, optional=optional)
        if data is None or (key not in data and optional):
            return None
        if key not in data:
            kind, name = want
            raise InputFault(
                "KeyNotFound",
                f"{used_by}: {kind} {name} in namespace {self.namespace} has no key {key}",
                Whose.ABSENT,
            )
        return data[key]


def wanted(task: Task) -> tuple[Want, ...]:
    """Each object once, in the order of the fields that name them; none for most Tasks."""
    return tuple(dict.fromkeys([*_of_environment(task), *_of_volumes(task), *_of_bundle(task), *_of_lifetime(task)]))


def _of_environment(task: Task) -> Iterator[Want]:
    for whole in task.spec.env_from:
        if whole.secret_ref is not None:
            yield ObjectKind.SECRET, whole.secret_ref.name
        if whole.config_map_ref is not None:
            yield ObjectKind.CONFIG_MAP, whole.config_map_ref.name
    for one in task.spec.env:
        source = one.value_from
        if source is not None and source.secret_key_ref is not None:
            yield ObjectKind.SECRET, source.secret_key_ref.name
        if source is not None and source.config_map_key_ref is not None:
            yield ObjectKind.CONFIG_MAP, source.config_map_key_ref.name


def _of_volumes(task: Task) -> Iterator[Want]:
    mounted = mounted_volumes(task)
    for volume in task.spec.volumes:
        if volume.name in mounted and volume.secret is not None:
            yield ObjectKind.SECRET, volume.secret.secret_name
        if volume.name in mounted and volume.config_map is not None:
            yield ObjectKind.CONFIG_MAP, volume.config_map.name


def mounted_volumes(task: Task) -> set[str]:
    """Names of the volumes that are used; the others are not looked at, so that they can't be in the way."""
    bundle = task.spec.bundle
    more = {bundle.volume.name} if bundle is not None and bundle.volume is not None else set()
    return {mount.name for mount in task.spec.volume_mounts} | more


def _of_bundle(task: Task) -> Iterator[Want]:
    bundle = task.spec.bundle
    if bundle is None:
        return
    if bundle.config_map is not None:
        yield ObjectKind.CONFIG_MAP, bundle.config_map.name
    for source in (bundle.http, bundle.s3):
        if source is not None and source.secret_name:
            yield ObjectKind.SECRET, source.secret_name


def _of_lifetime(task: Task) -> Iterator[Want]:
    script = task.spec.container_lifetime.setup_script
    if script is not None and script.config_map_key_ref is not None:
        yield ObjectKind.CONFIG_MAP, script.config_map_key_ref.name
