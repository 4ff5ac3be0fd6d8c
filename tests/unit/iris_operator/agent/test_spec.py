"""From a Task to its sandbox: limits, labels, devices, credentials."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.node.gpus import Grant, NoFreeGpus, driver_minors, inventory
from iris_operator.agent.sandbox.credentials import BadSecret, credentials_for, registry_of
from iris_operator.agent.sandbox.labels import facts
from iris_operator.agent.sandbox.spec import Place, sandbox_spec
from iris_runtimes.errors import InvalidLimits, InvalidSpec
from iris_runtimes.protocol import CgroupParent, Credentials, Device, PodContext, Sandbox, SandboxSpec, SandboxState
from tests.unit.iris_operator.agent.build import NOW, POD_UID, task

PLACE = Place("s", "node-1.example", POD_UID, CgroupParent("/kubepods/pod1"))


def spec_of(**fields: Any) -> SandboxSpec:
    return sandbox_spec(task(**fields), PLACE, Grant(("GPU-a",)), "sha256:1", Path("/logs/x"), NOW)


def test_limits_are_exact() -> None:
    made = spec_of(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "1.5", "memory": "1Gi"}})
    assert (made.cpu_request_millicores, made.cpu_limit_millicores, made.memory_limit_bytes) == (250, 1500, 2**30)


def test_a_memory_limit_too_small_to_start_is_the_users() -> None:
    with pytest.raises(InvalidSpec, match="1Mi is below"):
        spec_of(resources={"limits": {"memory": "1Mi"}})


@pytest.mark.parametrize(
    ("fields", "made"),
    [
        ({}, {"pids_limit": 32768, "shm_size_bytes": 64 * 2**20, "hugepage_limits_bytes": {}, "privileged": False,
              "allow_privilege_escalation": False, "supplemental_groups": []}),
        ({"resources": {"pids": 100}}, {"pids_limit": 100}),
        ({"resources": {"shmSize": "1Gi"}}, {"shm_size_bytes": 2**30}),
        ({"resources": {"limits": {"hugepages-2Mi": "64Mi", "hugepages-1Gi": "2Gi"}}},
         {"hugepage_limits_bytes": {2 * 2**20: 64 * 2**20, 2**30: 2 * 2**30}}),
        ({"securityContext": {"supplementalGroups": [7, 8]}}, {"supplemental_groups": [7, 8]}),
        ({"securityContext": {"runAsUser": 0, "runAsGroup": 5}}, {"user": 0, "group": 5}),
        ({"securityContext": {"privileged": True}}, {"privileged": True}),
        ({"securityContext": {"allowPrivilegeEscalation": True}}, {"allow_privilege_escalation": True}),
        ({"securityContext": {"capabilities": {"add": ["SYS_NICE"], "drop": ["ALL"]}}},
         {"add_capabilities": ["SYS_NICE"], "drop_capabilities": ["ALL"]}),
    ],
)  # fmt: skip
def test_what_it_may_do_and_use(fields: dict[str, Any], made: dict[str, Any]) -> None:
    spec = spec_of(**fields)
    assert {name: getattr(spec, name) for name in made} == made


def test_huge_pages_of_no_size_are_the_users() -> None:
    with pytest.raises(InvalidLimits, match="hugepages-big names no size"):
        spec_of(resources={"limits": {"hugepages-big": "1Mi"}})


def test_labels_tell_all_after_a_restart() -> None:
    made = spec_of()
    found = facts(Sandbox(made.id, made.labels, SandboxState.RUNNING))
    assert (found.task_uid, found.attempt, found.worker_uid) == ("uid-t", 1, POD_UID)
    assert (found.image_digest, found.gpus, found.started_at, found.log_path) == (
        "sha256:1",
        ("GPU-a",),
        NOW,
        "/logs/x",
    )


def test_the_hostname_is_the_nodes() -> None:
    assert spec_of().hostname == "node-1"


def gpu_context(visible: str, *paths: str) -> PodContext:
    devices = tuple(Device(path, path) for path in paths)
    return PodContext(CgroupParent("/x"), devices, {"NVIDIA_VISIBLE_DEVICES": visible} if visible else {})


FOUR = ("/dev/nvidia4", "/dev/nvidia7", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/infiniband/uverbs0")


def test_a_task_gets_its_gpus_device_and_the_shared_ones() -> None:
    grant = inventory(gpu_context("GPU-a,GPU-b", *FOUR)).grant(1, False, ["GPU-a"])
    assert grant.gpus == ("GPU-b",)
    assert [one.container_path for one in grant.gpu_devices] == ["/dev/nvidia7", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert grant.devices == ()  # InfiniBand was not asked for


def test_the_drivers_word_on_who_is_who_goes_first() -> None:
    minors = driver_minors(["Model: H100\nGPU UUID:   GPU-b\nDevice Minor:  4\n", "GPU UUID: GPU-a\nDevice Minor: 7\n"])
    grant = inventory(gpu_context("GPU-a,GPU-b", *FOUR), minors).grant(1, False, [])
    assert grant.gpu_devices[0].container_path == "/dev/nvidia7"


def test_numbered_gpus_name_their_nodes() -> None:
    grant = inventory(gpu_context("7,4", *FOUR)).grant(1, False, [])
    assert (grant.gpus, grant.gpu_devices[0].container_path) == (("7",), "/dev/nvidia7")


def test_no_gpus_no_devices_but_infiniband_when_asked() -> None:
    found = inventory(gpu_context("GPU-a", *FOUR))
    assert found.grant(0, False, []).devices == ()
    assert [one.container_path for one in found.grant(0, True, []).devices] == ["/dev/infiniband/uverbs0"]


def test_too_few_gpus_says_the_numbers() -> None:
    with pytest.raises(NoFreeGpus, match="needs 2 GPUs; 1 of this worker's 2 are free"):
        inventory(gpu_context("GPU-a,GPU-b")).grant(2, False, ["GPU-a"])


@pytest.mark.parametrize("visible", ["", "void", "none", "all"])
def test_no_gpus_are_no_gpus(visible: str) -> None:
    assert inventory(gpu_context(visible)).gpus == ()


def secret(auths: Any, kind: str = "kubernetes.io/dockerconfigjson") -> dict[str, Any]:
    data = {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}
    return {"metadata": {"name": "pull"}, "type": kind, "data": data}


def test_credentials_by_registry_most_specific_first() -> None:
    pull = secret(
        {
            "https://registry.test/v1/": {"username": "wide", "password": "w"},
            "registry.test/team": {"auth": base64.b64encode(b"narrow:n:1").decode()},
            "other.test": {"username": "other", "password": "o"},
        }
    )
    assert credentials_for("registry.test/team/app:1", [pull]) == [
        Credentials("narrow", "n:1"),
        Credentials("wide", "w"),
    ]
    assert credentials_for("app", [pull], "other.test") == [Credentials("other", "o")]
    assert credentials_for("elsewhere.test/app@sha256:0", [pull]) == []


def test_bad_secrets_say_what_is_wrong() -> None:
    with pytest.raises(BadSecret, match="of type Opaque"):
        credentials_for("registry.test/app", [secret({}, "Opaque")])
    with pytest.raises(BadSecret, match="not base64"):
        credentials_for("registry.test/app", [secret({"registry.test": {"auth": "?"}})])
    with pytest.raises(BadSecret, match="not a Docker configuration"):
        credentials_for("registry.test/app", [{**secret({}), "data": {}}])


@pytest.mark.parametrize(
    ("image", "registry"),
    [("a/b:1", ""), ("localhost/a", "localhost"), ("r:5000/a", "r:5000"), ("r.test/a/b", "r.test")],
)
def test_registry_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry
