"""Whether a Task asks for more than its IrisCluster allows. What does is never placed, and counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath

from iris_operator.api.cluster import IrisCluster, Policy
from iris_operator.api.names import CACHE_DIR
from iris_operator.api.task import Task, TaskSpec
from iris_operator.plan.text import names_text

POLICY_DENIED = "PolicyDenied"


def denial(task: Task, cluster: IrisCluster) -> str:
    """All that is denied, in one line: each field with the setting that would allow it. Empty: nothing is."""
    spec = task.spec
    context = spec.security_context
    if not (context.privileged or context.capabilities.add or spec.volumes or spec.runtime):
        return ""  # nearly all
    return "; ".join(_denied(spec, cluster))


def _denied(spec: TaskSpec, cluster: IrisCluster) -> Iterator[str]:
    where = f"IrisCluster {cluster.metadata.name} spec"
    policy, worker = cluster.spec.policy, cluster.spec.worker
    if spec.security_context.privileged and not policy.allow_privileged:
        yield f"securityContext.privileged: {where}.policy.allowPrivileged is false"
    over = _capabilities_over(spec, policy)
    if over:
        allowed = f"{where}.policy.allowedCapabilities has {_listed(policy.allowed_capabilities)}"
        yield f"securityContext.capabilities.add {names_text(over)}: {allowed}"
    for index, volume in enumerate(spec.volumes):
        if volume.host_path is not None and _holds_ours(volume.host_path.path):
            yield f"volumes[{index}].hostPath.path {volume.host_path.path}: {CACHE_DIR} is Iris' own, never a Task's"
        elif volume.host_path is not None and not _path_allowed(volume.host_path.path, policy.allowed_host_paths):
            allowed = f"{where}.policy.allowedHostPaths has {_listed(policy.allowed_host_paths)}"
            yield f"volumes[{index}].hostPath.path {volume.host_path.path}: {allowed}"
        claim = volume.persistent_volume_claim
        mounted = [one.claim_name for one in worker.volume_claims]
        if claim is not None and claim.claim_name not in mounted:
            allowed = f"{where}.worker.volumeClaims has {_listed(mounted)}"
            yield f"volumes[{index}].persistentVolumeClaim.claimName {claim.claim_name}: {allowed}"
    if spec.runtime not in ("", worker.runtime):
        yield f"runtime {spec.runtime}: {where}.worker.runtime is {worker.runtime}"


def _capabilities_over(spec: TaskSpec, policy: Policy) -> list[str]:
    """CAP_ before a name means the same, on both sides."""
    allowed = {name.removeprefix("CAP_") for name in policy.allowed_capabilities}
    if "ALL" in allowed:
        return []
    return [name for name in spec.security_context.capabilities.add if name.removeprefix("CAP_") not in allowed]


def _path_allowed(path: str, allowed: list[str]) -> bool:
    """Whether it is one of them, or below one. What climbs with '..' is nowhere: a link may lead it elsewhere."""
    if ".." in path.split("/"):
        return False
    wanted = _parts(path)
    return any(wanted[: len(_parts(one))] == _parts(one) for one in allowed)


def _holds_ours(path: str) -> bool:
    """Whether it is above or below the agent's folder: there lie the logs of all, and what containerd runs as root."""
    return all(one == other for one, other in zip(_parts(path), _parts(CACHE_DIR), strict=False))


def _parts(path: str) -> list[str]:
    return [part for part in normpath(path).split("/") if part]


def _listed(names: list[str]) -> str:
    return names_text(names) if names else "none"
