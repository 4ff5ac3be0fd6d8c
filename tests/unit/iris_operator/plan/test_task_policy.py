"""What a Task may not ask for, and the words that name field and setting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iris_operator.api.volume import HostPathVolume
from iris_operator.plan.placement.placement import PlacementPlan, PlacementView, plan_placement
from iris_operator.plan.tasks.policy import denial
from tests.builders import NAMESPACE, NOW, cluster, group, slice_, task
from tests.unit.iris_operator.plan.fleets import created, fleet, only

_WHERE = "IrisCluster default spec"


def _caps(*names: str) -> dict[str, Any]:
    return {"securityContext": {"capabilities": {"add": list(names)}}}


def _path(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": path}}]}


def _claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": name}}]}


@dataclass(frozen=True)
class Case:
    """A Task's spec and a cluster's settings: what is denied, whole; empty: nothing."""

    task: dict[str, Any]
    denied: str = ""
    policy: dict[str, Any] = field(default_factory=dict)
    worker: dict[str, Any] = field(default_factory=dict)


_PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}
_NO_PATHS = f"{_WHERE}.policy.allowedHostPaths has none"
_PATHS = {"allowedHostPaths": ["/data/", "/mnt/fast"]}
_OURS = "/var/cache/iris is Iris' own, never a Task's"
_VAR = {"allowedHostPaths": ["/var"]}
_TWO_PATHS = f"{_WHERE}.policy.allowedHostPaths has /data/, /mnt/fast"

CASES = {
    "plain": Case({}),
    "privileged": Case(_PRIVILEGED, f"securityContext.privileged: {_WHERE}.policy.allowPrivileged is false"),
    "privileged, allowed": Case(_PRIVILEGED, policy={"allowPrivileged": True}),
    "a capability": Case(
        _caps("NET_ADMIN"),
        f"securityContext.capabilities.add NET_ADMIN: {_WHERE}.policy.allowedCapabilities has none",
    ),
    "one of two capabilities": Case(
        _caps("NET_ADMIN", "SYS_ADMIN"),
        f"securityContext.capabilities.add SYS_ADMIN: {_WHERE}.policy.allowedCapabilities has NET_ADMIN",
        {"allowedCapabilities": ["NET_ADMIN"]},
    ),
    "a capability, allowed": Case(_caps("NET_ADMIN"), policy={"allowedCapabilities": ["NET_ADMIN"]}),
    "a capability, allowed by its long name": Case(
        _caps("NET_ADMIN"), policy={"allowedCapabilities": ["CAP_NET_ADMIN"]}
    ),
    "any capability": Case(_caps("SYS_ADMIN", "ALL"), policy={"allowedCapabilities": ["ALL"]}),
    "all capabilities where one is allowed": Case(
        _caps("ALL"),
        f"securityContext.capabilities.add ALL: {_WHERE}.policy.allowedCapabilities has NET_ADMIN",
        {"allowedCapabilities": ["NET_ADMIN"]},
    ),
    "dropping is free": Case({"securityContext": {"capabilities": {"drop": ["ALL"]}}}),
    "a path": Case(_path("/data"), f"volumes[1].hostPath.path /data: {_NO_PATHS}"),
    "a path, allowed": Case(_path("/data"), policy=_PATHS),
    "a path below": Case(_path("/mnt/fast/a//b/"), policy=_PATHS),
    "a path that only begins alike": Case(
        _path("/mnt/faster"), f"volumes[1].hostPath.path /mnt/faster: {_TWO_PATHS}", _PATHS
    ),
    "a path above": Case(_path("/mnt"), f"volumes[1].hostPath.path /mnt: {_TWO_PATHS}", _PATHS),
    "the root": Case(_path("/"), f"volumes[1].hostPath.path /: {_OURS}", _PATHS),
    "ours": Case(_path("/var/cache/iris"), f"volumes[1].hostPath.path /var/cache/iris: {_OURS}", _VAR),
    "in ours": Case(_path("/var/cache/iris/logs"), f"volumes[1].hostPath.path /var/cache/iris/logs: {_OURS}", _VAR),
    "around ours": Case(_path("/var/cache/"), f"volumes[1].hostPath.path /var/cache/: {_OURS}", _VAR),
    "beside ours": Case(_path("/var/cache/irises"), "", _VAR),
    "any path": Case(_path("/etc"), policy={"allowedHostPaths": ["/"]}),
    "a claim": Case(
        _claim("a"), f"volumes[0].persistentVolumeClaim.claimName a: {_WHERE}.worker.volumeClaims has none"
    ),
    "another claim": Case(
        _claim("a"),
        f"volumes[0].persistentVolumeClaim.claimName a: {_WHERE}.worker.volumeClaims has b, c",
        worker={"volumeClaims": [{"claimName": "b"}, {"claimName": "c"}]},
    ),
    "a claim, mounted": Case(_claim("a"), worker={"volumeClaims": [{"claimName": "a"}]}),
    "other volumes": Case({"volumes": [{"name": "a", "nodeCache": {}}, {"name": "b", "secret": {"secretName": "s"}}]}),
    "another runtime": Case({"runtime": "docker"}, f"runtime docker: {_WHERE}.worker.runtime is containerd"),
    "the runtime": Case({"runtime": "docker"}, worker={"runtime": "docker"}),
    "two at once": Case(
        {**_PRIVILEGED, "runtime": "enroot"},
        f"securityContext.privileged: {_WHERE}.policy.allowPrivileged is false; "
        f"runtime enroot: {_WHERE}.worker.runtime is containerd",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_denial(name: str) -> None:
    case = CASES[name]
    found = denial(task(**case.task).build(), cluster(policy=case.policy, worker=case.worker).build())
    assert found == case.denied


def test_a_path_that_climbs_is_below_nothing() -> None:
    """The API server refuses it too; should it come all the same, it is not resolved by words."""
    climbing = task(volumes=[{"name": "a", "emptyDir": {}}]).build()
    volume = climbing.spec.volumes[0].model_copy(
        update={"empty_dir": None, "host_path": HostPathVolume.model_construct(path="/data/../etc")}
    )
    spec = climbing.spec.model_copy(update={"volumes": [volume]})
    everything = cluster(policy={"allowedHostPaths": ["/", "/data", "/etc"]}).build()
    assert "/data/../etc" in denial(climbing.model_copy(update={"spec": spec}), everything)


def _placed(*tasks: Any, **settings: Any) -> PlacementPlan:
    slices = (slice_().ready({"cpu": "8", "memory": "16Gi"}).build(),)
    view = PlacementView(NAMESPACE, (cluster(**settings).build(),), slices, tuple(one.build() for one in tasks))
    return plan_placement(view, NOW)


def test_it_is_never_placed() -> None:
    plan = _placed(task("bad", **_PRIVILEGED), task("good"))
    assert [one.task.metadata.name for one in plan.bindings] == ["good"]
    assert [(one.task.metadata.name, one.message) for one in plan.denied] == [("bad", CASES["privileged"].denied)]
    assert not plan.unplaced


def test_without_settings_nothing_is_denied_yet() -> None:
    view = PlacementView(NAMESPACE, (), (), (task(**_PRIVILEGED).build(),))
    plan = plan_placement(view, NOW)
    assert not plan.denied and plan.unplaced[0].reason == "ClusterNotFound"


def test_no_slice_is_made_for_it() -> None:
    denied, allowed = (task(name, **more).made(900) for name, more in (("a", _PRIVILEGED), ("b", {})))
    groups = [group(minSlices=0)]
    assert created(only(fleet(groups, tasks=[denied]))) == []
    assert created(only(fleet(groups, tasks=[allowed]))) == ["Demand"]
