"""How the four kinds look from kubectl: descriptions, columns, selectors, defaults, examples; and that files are fresh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.api import crd
from iris_operator.api.base import Resource
from iris_operator.api.quantity import parse_quantity
from iris_operator.ports.kube import IRIS_CLUSTERS, SCALE_GROUPS, SLICES, TASKS, Kind
from tests.builders import cluster, group, slice_, task
from tests.cluster.conftest import ROOT, kubectl

pytestmark = pytest.mark.cluster

_PATHS: dict[str, Kind] = {
    "IrisCluster": IRIS_CLUSTERS, "ScaleGroup": SCALE_GROUPS, "Slice": SLICES, "Task": TASKS,
}  # fmt: skip
_IDS = [model.KIND for model in crd.KINDS]


def _undescribed(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        if not part.get("description", "").strip():
            yield here
        yield from _undescribed(part, here)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from _undescribed(schema[inner], f"{path}[]")


@pytest.mark.parametrize("model", crd.KINDS, ids=_IDS)
def test_every_field_is_described(model: type[Resource]) -> None:
    schema = crd.openapi_schema(model)
    assert schema["description"]
    missing = [*_undescribed(schema["properties"]["spec"], "spec")]
    missing += _undescribed(schema["properties"]["status"], "status")
    assert missing == []
    assert schema["properties"]["spec"]["description"] and schema["properties"]["status"]["description"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("slice.spec.instanceType", "CoreWeave instance type"),
        ("task.spec.resources.limits", "What the container can't exceed"),
        ("iriscluster.spec.timeouts.bootSeconds", "20 to 30 minutes"),
        ("scalegroup.spec.minSlices", "always kept"),
        ("slice.status.nodes.rank", "Position in the slice"),
        ("slice.spec.availability", "placed elsewhere"),
        ("scalegroup.spec.disruption.maxUnavailable", "share of the group"),
        ("scalegroup.status.decisions", "newest first"),
        ("iriscluster.spec.autoscaler.scaleDownDelaySeconds", "idle"),
        ("task.spec.retryPolicy", "by whose fault"),
        ("task.spec.retryPolicy.onExitCodes.action", "Fail: never again"),
        ("task.spec.timeouts.schedulingSeconds", "SchedulingTimeout"),
        ("task.spec.env.valueFrom.secretKeyRef", "A key of a Secret"),
        ("task.spec.volumes.hostPath", "allowedHostPaths"),
        ("task.spec.bundle.digest", "sha256 of the archive"),
        ("task.spec.readinessProbe.tcpSocket.port", "name of one of spec.ports"),
        ("task.spec.containerLifetime", "NoLaunch: it must be there already"),
        ("task.status.retryAfter", "not placed before"),
        ("iriscluster.spec.policy.allowPrivileged", "owns its node"),
    ],
)
def test_kubectl_explain(kubeconfig: Path, path: str, words: str) -> None:
    assert words in " ".join(kubectl(kubeconfig, "explain", path).split())


COLUMNS = {
    "IrisCluster": ["Name", "Ready", "Slices", "SlicesReady", "Pending", "Running", "CPU-Free", "GPU-Free", "Age"],
    "ScaleGroup": [
        "Name",
        "Ready",
        "Booting",
        "Failed",
        "Bounds",
        "Demand",
        "Blocked",
        "Until",
        "Decision",
        "Age",
    ],
    "Slice": ["Name", "Phase", "Group", "Nodes", "Tasks", "Idle", "Age"],
    "Task": ["Name", "Phase", "Reason", "Members", "Attempt", "Node", "Exit", "Age"],
}


async def _table(api: KubeClient, kind: Kind, namespace: str) -> dict[str, Any]:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with api.open("GET", kind.path(namespace), headers=accept) as response:
        answer: dict[str, Any] = await response.json()
    names = [one["name"] for one in answer["columnDefinitions"] if one["priority"] == 0]
    cells = [cell for cell, one in zip(answer["rows"][0]["cells"], answer["columnDefinitions"], strict=True)
             if one["priority"] == 0]  # fmt: skip
    return dict(zip(names, cells, strict=True))


_STATUS: dict[str, dict[str, Any]] = {
    "IrisCluster": {
        "slices": {"total": 3, "ready": 2, "failed": 1},
        "tasks": {"pending": 4, "running": 5, "succeeded": 0, "failed": 0},
        "free": {"cpu": "12", "nvidia.com/gpu": "8"},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-11-21T12:00:00Z"}
        ],
    },
    "ScaleGroup": {
        "ready": 1,
        "booting": 2,
        "failed": 0,
        "bounds": "1-2",
        "demand": 3,
        "backoff": {"reason": "OverQuota", "failures": 2, "until": "2026-11-21T12:05:00Z"},
        "blockedUntil": "2026-11-21T12:05:00Z",
        "decisions": [
            {"time": "2026-11-21T12:00:00Z", "action": "Block", "reason": "OverQuota", "message": "newest"},
            {"time": "2026-11-21T11:00:00Z", "action": "ScaleUp", "reason": "Demand", "message": "older"},
        ],
    },
    "Slice": {"phase": "Ready", "nodesReady": "1/1", "tasks": 2, "idleSince": "2026-11-21T12:00:00Z"},
    "Task": {
        "phase": "Failed",
        "reason": "Error",
        "exitCode": 3,
        "attempt": 2,
        "startTime": "2026-11-21T12:00:00Z",
        "retries": {"user": 1},
    },
}
_CELLS = {
    "IrisCluster": {"Ready": "True", "Slices": 3, "SlicesReady": 2, "Pending": 4, "CPU-Free": "12", "GPU-Free": "8"},
    "ScaleGroup": {
        "Ready": 1,
        "Booting": 2,
        "Bounds": "1-2",
        "Demand": 3,
        "Blocked": "OverQuota",
        "Until": "2026-11-21T12:05:00Z",
        "Decision": "newest",
    },
    "Slice": {"Phase": "Ready", "Group": "g", "Nodes": "1/1", "Tasks": 2},
    "Task": {"Phase": "Failed", "Reason": "Error", "Attempt": 2, "Node": "s-n0", "Exit": 3},
}


@pytest.mark.parametrize("kind", COLUMNS)
async def test_columns(api: KubeClient, namespace: str, kind: str) -> None:
    where = _PATHS[kind]
    made: dict[str, Any] = {
        "IrisCluster": cluster(), "ScaleGroup": group(), "Slice": slice_(scaleGroupName="g"), "Task": task().bound("s"),
    }  # fmt: skip
    body = _new(made[kind].body())
    await api.create(where, body, namespace)
    name = body["metadata"]["name"]
    await api.patch(where, name, {"status": _STATUS[kind]}, namespace=namespace, subresource="status")
    row = await _table(api, where, namespace)
    assert list(row) == COLUMNS[kind]
    assert {name: row[name] for name in _CELLS[kind]} == _CELLS[kind]


async def test_a_group_without_a_decision_has_an_empty_column(api: KubeClient, namespace: str) -> None:
    await api.create(SCALE_GROUPS, _new(group().body()), namespace)
    row = await _table(api, SCALE_GROUPS, namespace)
    assert (row["Decision"], row["Blocked"]) == (None, None)


async def test_kubectl_scale_sets_what_is_kept_and_shows_what_is_there(
    api: KubeClient, kubeconfig: Path, namespace: str
) -> None:
    body = _new(group(minSlices=0, maxSlices=4).body())
    await api.create(SCALE_GROUPS, body, namespace)
    await api.patch(SCALE_GROUPS, "g", {"status": {"slices": 2}}, namespace=namespace, subresource="status")
    kubectl(kubeconfig, "-n", namespace, "scale", "scalegroup", "g", "--replicas=3")
    scale = await api.request("GET", SCALE_GROUPS.path(namespace, "g", "scale"))
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 2)
    assert (await api.get(SCALE_GROUPS, "g", namespace))["spec"]["minSlices"] == 3


async def test_kubectl_scale_does_not_go_over_the_bound(api: KubeClient, kubeconfig: Path, namespace: str) -> None:
    await api.create(SCALE_GROUPS, _new(group(minSlices=0, maxSlices=4).body()), namespace)
    with pytest.raises(AssertionError, match="lower minSlices or raise maxSlices"):
        kubectl(kubeconfig, "-n", namespace, "scale", "scalegroup", "g", "--replicas=5")


def test_short_names_and_the_category(kubeconfig: Path) -> None:
    listing = kubectl(kubeconfig, "api-resources", "--api-group=iris.dev", "--categories=iris", "--no-headers")
    assert {tuple(line.split()[:2]) for line in listing.splitlines()} == {
        ("irisclusters", "ic"), ("scalegroups", "sg"), ("slices", "sl"), ("tasks", "tk"),
    }  # fmt: skip


async def test_tasks_by_node_slice_and_phase(api: KubeClient, namespace: str) -> None:
    for name, slice_name, phase in (("a", "s", "Running"), ("b", "other", "Running"), ("c", "", "")):
        built = task(name).bound(slice_name) if slice_name else task(name)
        await api.create(TASKS, _new(built.body()), namespace)
        if phase:
            await api.patch(TASKS, name, {"status": {"phase": phase}}, namespace=namespace, subresource="status")
    assert await _names(api, TASKS, namespace, "spec.binding.nodeName=s-n0") == ["a"]
    assert await _names(api, TASKS, namespace, "spec.binding.sliceName=other") == ["b"]
    assert await _names(api, TASKS, namespace, "status.phase=Running") == ["a", "b"]
    assert await _names(api, TASKS, namespace, "status.phase=Failed") == []


async def test_slices_by_group_and_phase(api: KubeClient, namespace: str) -> None:
    for name, of in (("a", "g"), ("b", "")):
        await api.create(SLICES, _new(slice_(name, scaleGroupName=of).body()), namespace)
    await api.patch(SLICES, "b", {"status": {"phase": "Ready"}}, namespace=namespace, subresource="status")
    assert await _names(api, SLICES, namespace, "spec.scaleGroupName=g") == ["a"]
    assert await _names(api, SLICES, namespace, "status.phase=Ready") == ["b"]


async def _names(api: KubeClient, kind: Kind, namespace: str, fields: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.list(kind, namespace, fields=fields)).items]


async def test_defaults_are_the_models(api: KubeClient, namespace: str) -> None:
    """What the API server fills in is what the models would, so that both read an object alike."""
    for builder in (cluster(), group(), slice_(), task()):
        body = _new(builder.body())
        model: type[Resource] = type(builder.build())
        made = await api.create(_PATHS[body["kind"]], body, namespace)
        assert model.parse(made).model_dump()["spec"] == model.parse(body).model_dump()["spec"]
        assert "status" not in made


async def test_some_defaults_by_value(api: KubeClient, namespace: str) -> None:
    body = _new(cluster().body())
    body["spec"] = {}
    spec = (await api.create(IRIS_CLUSTERS, body, namespace))["spec"]
    assert (spec["controller"]["port"], spec["worker"]["port"]) == (10000, 10001)
    assert (spec["timeouts"]["bootSeconds"], spec["timeouts"]["initSeconds"]) == (1800, 1800)
    assert spec["controller"]["serviceName"] == "iris-controller-svc"
    made = (await api.create(TASKS, _new(task().body()), namespace))["spec"]
    assert (made["imagePullPolicy"], made["terminationGracePeriodSeconds"]) == ("IfNotPresent", 30)


@pytest.mark.parametrize("text", ["1", "500m", "1.5", ".5", "16Gi", "2e3", "1k", 3])
async def test_quantities_that_both_sides_take(api: KubeClient, namespace: str, text: Any) -> None:
    parse_quantity(text)
    await api.create(TASKS, _new(task(resources={"limits": {"memory": text}}).body()), namespace)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_accepted(kubeconfig: Path, path: Path) -> None:
    kubectl(kubeconfig, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(path))


@pytest.mark.parametrize("folder", ["crds", "charts/iris/files/crds"])
def test_files_are_what_the_models_say(folder: str) -> None:
    assert {path.name: path.read_text() for path in (ROOT / folder).glob("*.yaml")} == crd.files()


async def test_the_api_server_keeps_them_as_they_are(kubeconfig: Path) -> None:
    """Nothing of a schema is dropped or refused: no condition says NonStructuralSchema or the like."""
    listing = yaml.safe_load(kubectl(kubeconfig, "get", "crd", "-o", "yaml"))
    for body in listing["items"]:
        faults = [one for one in body["status"]["conditions"] if one["type"] in ("NonStructuralSchema",)]
        assert faults == []


def _new(body: dict[str, Any]) -> dict[str, Any]:
    """As a user would send it."""
    return {**body, "metadata": {"name": body["metadata"]["name"]}}
