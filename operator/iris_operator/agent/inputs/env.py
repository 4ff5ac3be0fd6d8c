"""A Task's own environment: envFrom, and env over it. Pure; messages name objects and keys, never a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iris_operator.agent.inputs.model import InputFault
from iris_operator.agent.inputs.wants import ObjectKind, Objects, Want
from iris_operator.api.env import EnvFromSource, EnvVar, EnvVarSource, KeySelector
from iris_operator.api.task import Task

# What a Pod takes from envFrom; other keys are files' names and the like.
_NAME = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")


@dataclass(frozen=True)
class Environment:
    """`variables`: each name once, the last given wins. `skipped`: what of envFrom is no variable, and why."""

    variables: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...] = ()


def environment(task: Task, objects: Objects, host_ip: str) -> Environment:
    """The variables. InputFault when an object or key that must be there is absent, or a value is no text."""
    found: dict[str, str] = {}
    skipped: list[str] = []
    for source in task.spec.env_from:
        found.update(_whole(source, objects, skipped))
    for one in task.spec.env:
        value = _value(one, task, objects, host_ip)
        if value is not None:
            found[one.name] = value
    return Environment(tuple(found.items()), tuple(skipped))


def _whole(source: EnvFromSource, objects: Objects, skipped: list[str]) -> Iterator[tuple[str, str]]:
    selector = source.secret_ref or source.config_map_ref
    assert selector is not None  # the schema's rule
    kind = ObjectKind.SECRET if source.secret_ref is not None else ObjectKind.CONFIG_MAP
    data = objects.data((kind, selector.name), "envFrom", optional=selector.optional)
    for key, raw in sorted((data or {}).items()):
        name, text = source.prefix + key, _text(raw)
        if not _NAME.match(name):
            skipped.append(f"{kind} {selector.name}: {name} is no name of a variable")
        elif text is None:
            skipped.append(f"{kind} {selector.name}: key {key} is no text")
        else:
            yield name, text


def _value(one: EnvVar, task: Task, objects: Objects, host_ip: str) -> str | None:
    source = one.value_from
    if source is None:
        return one.value
    if source.field_ref is not None:
        return facts(task, host_ip)[source.field_ref.field_path]
    want, selector = _key(source)
    raw = objects.value(want, selector.key, f"env {one.name}", optional=selector.optional)
    text = _text(raw) if raw is not None else None
    if raw is not None and text is None:
        kind, name = want
        raise InputFault(
            "ValueNotText",
            f"env {one.name}: key {selector.key} of {kind} {name} in namespace {objects.namespace} is no text "
            "(UTF-8 without NUL): mount it as a file",
        )
    return text


def _key(source: EnvVarSource) -> tuple[Want, KeySelector]:
    if source.secret_key_ref is not None:
        return (ObjectKind.SECRET, source.secret_key_ref.name), source.secret_key_ref
    assert source.config_map_key_ref is not None  # the schema's rule
    return (ObjectKind.CONFIG_MAP, source.config_map_key_ref.name), source.config_map_key_ref


def facts(task: Task, host_ip: str) -> Mapping[str, str]:
    """What fieldRef may name, of a bound Task."""
    binding = task.spec.binding
    assert binding is not None
    return {
        "metadata.name": task.metadata.name,
        "metadata.namespace": task.metadata.namespace,
        "metadata.uid": task.metadata.uid,
        "spec.binding.attempt": str(binding.attempt),
        "spec.binding.sliceName": binding.slice_name,
        "spec.binding.nodeName": binding.node_name,
        "spec.binding.rank": str(binding.rank),
        "status.hostIP": host_ip,
    }


def _text(raw: bytes) -> str | None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
