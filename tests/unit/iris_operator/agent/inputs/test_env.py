"""envFrom and env: what wins, what may be absent, what is told; never a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.agent.inputs.env import environment
from iris_operator.agent.inputs.model import InputFault, Whose
from iris_operator.agent.inputs.wants import ObjectKind, Objects, Want, wanted
from tests.unit.iris_operator.agent.build import task

_VALUE = "hunter2"
_FOUND: dict[Want, dict[str, bytes]] = {
    (ObjectKind.SECRET, "s"): {"password": _VALUE.encode(), "binary": b"\xff\x00"},
    (ObjectKind.CONFIG_MAP, "c"): {"level": b"debug", "1st": b"x", "app.conf": b"y"},
}


def _env(**spec: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    found = environment(task(**spec), Objects("default", _FOUND), "10.0.0.7")
    return dict(found.variables), found.skipped


def _secret(key: str = "password", name: str = "s", **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": key, **more}}}


def _config(key: str = "level", name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}


def _field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


@dataclass(frozen=True)
class Case:
    env: list[dict[str, Any]] = field(default_factory=list)
    env_from: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    skipped: int = 0


CASES = {
    "a value": Case([{"name": "X", "value": "1"}], variables={"X": "1"}),
    "an empty one": Case([{"name": "X"}], variables={"X": ""}),
    "a Secret's key": Case([_secret()], variables={"X": _VALUE}),
    "a ConfigMap's key": Case([_config()], variables={"X": "debug"}),
    "an absent key that may be": Case([_secret("nope", optional=True)]),
    "an absent object that may be": Case([_config(name="nope", optional=True)]),
    "all of a ConfigMap, but what is no name": Case(
        env_from=[{"configMapRef": {"name": "c"}}], variables={"level": "debug", "app.conf": "y"}, skipped=1
    ),
    "a prefix makes a name": Case(
        env_from=[{"prefix": "P_", "configMapRef": {"name": "c"}}],
        variables={"P_level": "debug", "P_1st": "x", "P_app.conf": "y"},
    ),
    "all of a Secret, but what is no text": Case(
        env_from=[{"secretRef": {"name": "s"}}], variables={"password": _VALUE}, skipped=1
    ),
    "an absent whole that may be": Case(env_from=[{"secretRef": {"name": "nope", "optional": True}}]),
    "env goes over envFrom": Case(
        [{"name": "password", "value": "mine"}], [{"secretRef": {"name": "s"}}], {"password": "mine"}, 1
    ),
    "an absent key leaves envFrom's": Case(
        [{"name": "password", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "nope", "optional": True}}}],
        [{"secretRef": {"name": "s"}}], {"password": _VALUE}, 1,
    ),
    "its name": Case([_field("metadata.name")], variables={"X": "t"}),
    "its namespace": Case([_field("metadata.namespace")], variables={"X": "default"}),
    "its uid": Case([_field("metadata.uid")], variables={"X": "uid-t"}),
    "its attempt": Case([_field("spec.binding.attempt")], variables={"X": "1"}),
    "its slice": Case([_field("spec.binding.sliceName")], variables={"X": "s"}),
    "its node": Case([_field("spec.binding.nodeName")], variables={"X": "node-1"}),
    "its rank": Case([_field("spec.binding.rank")], variables={"X": "0"}),
    "its node's address": Case([_field("status.hostIP")], variables={"X": "10.0.0.7"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_environment(name: str) -> None:
    case = CASES[name]
    variables, skipped = _env(env=case.env, envFrom=case.env_from)
    assert (variables, len(skipped)) == (case.variables, case.skipped)
    assert _VALUE not in repr(skipped)


FAULTS: dict[str, tuple[dict[str, Any], str, Whose, str]] = {
    "no such Secret": ({"env": [_secret(name="nope")]}, "SecretNotFound", Whose.ABSENT,
        "env X: there is no Secret nope in namespace default"),
    "no such ConfigMap": ({"env": [_config(name="nope")]}, "ConfigMapNotFound", Whose.ABSENT,
        "env X: there is no ConfigMap nope in namespace default"),
    "no such key": ({"env": [_secret("nope")]}, "KeyNotFound", Whose.ABSENT,
        "env X: Secret s in namespace default has no key nope"),
    "no such whole": ({"envFrom": [{"secretRef": {"name": "nope"}}]}, "SecretNotFound", Whose.ABSENT,
        "envFrom: there is no Secret nope in namespace default"),
    "no text": ({"env": [_secret("binary")]}, "ValueNotText", Whose.USER,
        "env X: key binary of Secret s in namespace default is no text (UTF-8 without NUL): mount it as a file"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_says_namespace_object_and_key(name: str) -> None:
    spec, reason, whose, words = FAULTS[name]
    with pytest.raises(InputFault) as caught:
        _env(**spec)
    assert (caught.value.reason, caught.value.whose, str(caught.value)) == (reason, whose, words)


def test_wants_each_object_once_and_only_of_what_is_used() -> None:
    found = wanted(
        task(
            env=[_secret(), _secret("other"), _config()],
            envFrom=[{"secretRef": {"name": "s"}}],
            volumes=[{"name": "v", "secret": {"secretName": "files"}}, {"name": "unused", "configMap": {"name": "u"}}],
            volumeMounts=[{"name": "v", "mountPath": "/v"}],
            bundle={"http": {"url": "http://h/x", "secretName": "token"}, "digest": "sha256:" + "0" * 64},
        )
    )
    secret, config = ObjectKind.SECRET, ObjectKind.CONFIG_MAP
    assert found == ((secret, "s"), (config, "c"), (secret, "files"), (secret, "token"))


def test_nothing_is_wanted_for_a_plain_task() -> None:
    assert wanted(task(env=[{"name": "A", "value": "b"}])) == ()


def test_no_repr_shows_values() -> None:
    assert _VALUE not in repr(Objects("default", _FOUND))
