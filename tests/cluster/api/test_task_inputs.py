"""What the API server refuses of what a Task is given: environment, set-up, bundle, volumes. By our schemas alone."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.ports.kube import TASKS
from tests.cluster.api.kit import assert_refused, made, refused_tasks, task_with

pytestmark = pytest.mark.cluster

KEY_OF = {"name": "o", "key": "k"}
SHA = f"sha256:{'0' * 64}"
HTTP = {"url": "https://h/a.tgz"}


def _volume(**source: Any) -> dict[str, Any]:
    return task_with(volumes=[{"name": "v", **source}])


def _mount(**mount: Any) -> dict[str, Any]:
    return task_with(volumes=[{"name": "v", "nodeCache": {}}], volumeMounts=[{"name": "v", "mountPath": "/v", **mount}])


def _variable(**source: Any) -> dict[str, Any]:
    return task_with(env=[{"name": "A", **source}])


_CASES: dict[str, tuple[Any, ...]] = {
    "a value from two places": (_variable(value="x", valueFrom={"secretKeyRef": KEY_OF}), "spec.env[0]", "keep one"),
    "a value from nowhere": (_variable(valueFrom={}), "spec.env[0].valueFrom", "exactly one of"),
    "a value from a Secret and a ConfigMap": (
        _variable(valueFrom={"secretKeyRef": KEY_OF, "configMapKeyRef": KEY_OF}), "valueFrom", "exactly one of"
    ),
    "a value from a Secret's no key": (_variable(valueFrom={"secretKeyRef": {"name": "o"}}), "secretKeyRef.key", "Required"),
    "a value from an unknown fact": (
        _variable(valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}}), "fieldRef.fieldPath", "spec.binding.nodeName"
    ),
    "an environment from nothing": (task_with(envFrom=[{"prefix": "A"}]), "spec.envFrom[0]", "exactly one of"),
    "an environment from two": (
        task_with(envFrom=[{"secretRef": {"name": "a"}, "configMapRef": {"name": "a"}}]), "spec.envFrom[0]", "exactly one of"
    ),
    "set-up without a command": (task_with(setup=[{"name": "a"}]), "spec.setup[0].command", "Required"),
    "set-up of an empty command": (task_with(setup=[{"command": []}]), "spec.setup[0].command", "at least 1"),
    "33 set-up commands": (task_with(setup=[{"command": ["true"]}] * 33), "spec.setup", "32"),
    "bundle of nothing": (task_with(bundle={"digest": SHA}), "spec.bundle", "exactly one of http, s3, configMap and volume"),
    "bundle of two": (
        task_with(bundle={"digest": SHA, "http": HTTP, "configMap": {"name": "c"}}), "spec.bundle", "exactly one of"
    ),
    "bundle by HTTP without a digest": (task_with(bundle={"http": HTTP}), "spec.bundle", "digest is required"),
    "bundle by S3 without a digest": (
        task_with(bundle={"s3": {"bucket": "b", "key": "k"}}), "spec.bundle", "as sha256sum prints it"
    ),
    "bundle with half a digest": (task_with(bundle={"digest": "sha256:0", "http": HTTP}), "bundle.digest", "sha256"),
    "bundle by FTP": (task_with(bundle={"digest": SHA, "http": {"url": "ftp://h/a"}}), "bundle.http.url", "https?"),
    "bundle from no volume": (task_with(bundle={"volume": {"name": "v"}}), "spec.bundle", "mend the name"),
    "bundle from above its volume": (
        task_with(volumes=[{"name": "v", "nodeCache": {}}], bundle={"volume": {"name": "v", "path": "a/../../b"}}),
        "spec.bundle.volume.path",
    ),
    "volume of nothing": (_volume(), "spec.volumes[0]", "exactly one of emptyDir"),
    "volume of two": (_volume(emptyDir={}, nodeCache={}), "spec.volumes[0]", "exactly one of"),
    "two volumes of one name": (
        task_with(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "nodeCache": {}}]), "spec.volumes[1]", "Duplicate"
    ),
    "volume on paper": (_volume(emptyDir={"medium": "Paper"}), "emptyDir.medium", "Memory"),
    "volume of less than nothing": (_volume(emptyDir={"sizeLimit": "-1Gi"}), "emptyDir.sizeLimit"),
    "relative path of the node": (_volume(hostPath={"path": "data"}), "hostPath.path"),
    "path of the node that leads out": (_volume(hostPath={"path": "/data/../etc"}), "hostPath.path"),
    "file above its volume": (
        _volume(configMap={"name": "c", "items": [{"key": "k", "path": "../k"}]}), "configMap.items[0].path"
    ),
    "absolute file of a Secret": (
        _volume(secret={"secretName": "c", "items": [{"key": "k", "path": "/k"}]}), "secret.items[0].path"
    ),
    "permissions beyond all": (_volume(configMap={"name": "c", "defaultMode": 512}), "configMap.defaultMode", "511"),
    "claim without a name": (_volume(persistentVolumeClaim={}), "persistentVolumeClaim.claimName", "Required"),
    "cache with a path for a name": (_volume(nodeCache={"name": "../x"}), "nodeCache.name"),
    "mount of no volume": (task_with(volumeMounts=[{"name": "v", "mountPath": "/v"}]), "spec.volumeMounts", "mend the name"),
    "mount of another volume": (
        {**_mount(), "volumeMounts": [{"name": "w", "mountPath": "/v"}]}, "spec.volumeMounts", "mend the name"
    ),
    "mount at a relative path": (_mount(mountPath="v"), "volumeMounts[0].mountPath"),
    "mount over the root": (_mount(mountPath="/"), "volumeMounts[0].mountPath"),
    "mount of what is above": (_mount(subPath="a/.."), "volumeMounts[0].subPath"),
    "two mounts at one path": (
        {**_mount(), "volumeMounts": [{"name": "v", "mountPath": "/v"}] * 2}, "volumeMounts[1]", "Duplicate"
    ),
}  # fmt: skip

REFUSED = refused_tasks(_CASES)

TAKEN = {
    "environment from everywhere": task_with(
        env=[
            {"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"secretKeyRef": KEY_OF}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {**KEY_OF, "optional": True}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "spec.binding.rank"}}},
        ],
        envFrom=[{"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c", "optional": True}}],
    ),
    "every kind of volume": task_with(
        volumes=[
            {"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "b", "hostPath": {"path": "/data/..x/y", "type": "DirectoryOrCreate"}},
            {"name": "c", "configMap": {"name": "c", "items": [{"key": "k", "path": "a/..k/./k"}], "defaultMode": 0}},
            {"name": "d", "secret": {"secretName": "s"}},
            {"name": "e", "persistentVolumeClaim": {"claimName": "p", "readOnly": True}},
            {"name": "f", "nodeCache": {"name": "pip"}},
        ],
        volumeMounts=[{"name": name, "mountPath": f"/{name}", "subPath": "x/y"} for name in "abcdef"],
    ),
    "bundle by HTTP": task_with(bundle={"digest": SHA, "http": {**HTTP, "secretName": "s"}}),
    "bundle from a ConfigMap, without a digest": task_with(bundle={"configMap": {"name": "c"}, "mountPath": "/code"}),
    "bundle from a volume": task_with(
        volumes=[{"name": "v", "nodeCache": {}}], bundle={"volume": {"name": "v", "path": "code/a.tgz"}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_with_the_field_s_name(api: KubeClient, name: str) -> None:
    await assert_refused(api, REFUSED[name])


@pytest.mark.parametrize("name", TAKEN)
async def test_taken(api: KubeClient, name: str) -> None:
    async with made(api, TASKS, TAKEN[name]):
        pass
