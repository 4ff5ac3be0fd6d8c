"""Which agent has what is asked for, and where there. Pure: Task or Slice, then its worker Pod -> Target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iris_operator.api.core import Pod
from iris_operator.api.names import member_name
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.gateway.answers import Refusal
from iris_operator.identity.names import agent_host

_PORT_NAME = "stream"


@dataclass(frozen=True)
class Wanted:
    """A worker Pod by name and uid; or, with neither, whichever worker of the slice is on that node."""

    path: str
    slice_name: str
    node_name: str
    pod_name: str = ""
    pod_uid: str = ""
    any_worker: bool = False


@dataclass(frozen=True)
class Target:
    """`https://<address>:<port><path>`, where a server must prove that it is `host`. `what`: it, for people."""

    address: str
    port: int
    host: str
    path: str
    what: str


def of_task(task: Task, subresource: str, attempt: str) -> Wanted | Refusal:
    """Of one attempt of a Task; `attempt` as asked for, empty: the present one, or else the last."""
    if attempt and not (attempt.isascii() and attempt.isdigit() and 0 < int(attempt) < 10**9):
        return Refusal(400, "BadRequest", f"attempt is {attempt!r}: it is a whole number, 1 or more")
    name, binding = task.metadata.name, task.spec.binding
    last = max((one.attempt for one in task.status.attempts), default=0)
    number = int(attempt) if attempt else binding.attempt if binding is not None else last
    if task.spec.replicas > 1 or not number:
        return _nowhere(task)
    path = f"/v1/tasks/{task.metadata.uid}/{number}/{subresource}"
    # A log outlives its worker Pod, on its node's disk.
    of_log = subresource == "log"
    if binding is not None and binding.attempt == number:
        where = (binding.slice_name, binding.node_name, binding.worker_pod, binding.worker_uid)
        return Wanted(path, *where, any_worker=of_log)
    if not of_log:
        return Refusal(409, "Conflict", f"attempt {number} of Task {name} does not run")
    past = next((one for one in task.status.attempts if one.attempt == number), None)
    if past is None or not past.node_name:
        return Refusal(404, "NotFound", f"nothing is known of attempt {number} of Task {name}")
    return Wanted(path, past.slice_name, past.node_name, any_worker=True)


def _nowhere(task: Task) -> Refusal:
    """Of a Task that no node has, or ever will."""
    name = task.metadata.name
    if task.spec.replicas == 1:
        return Refusal(404, "NotFound", f"Task {name} has not been placed on a node yet")
    members = f"{member_name(name, 0)} to {member_name(name, task.spec.replicas - 1)}"
    return Refusal(409, "Conflict", f"Task {name} runs nothing itself, its members do: name one of {members}")


def of_slice(found: Slice, subresource: str, rank: str) -> Wanted | Refusal:
    """Of one node of a Slice; no rank: 0."""
    name = found.metadata.name
    if rank and not (rank.isascii() and rank.isdigit()):
        return Refusal(400, "BadRequest", f"rank is {rank!r}: it is a whole number, 0 or more")
    for node in found.status.nodes:
        if node.rank == int(rank or 0):
            if not node.worker_uid:
                return Refusal(503, "ServiceUnavailable", f"rank {node.rank} of Slice {name} has no worker yet")
            return Wanted(f"/v1/{subresource}", name, node.name, node.worker_pod, node.worker_uid)
    return Refusal(404, "NotFound", f"Slice {name} has no node of rank {rank or 0} (yet)")


def choose(wanted: Wanted, pods: Iterable[Pod]) -> Target | Refusal:
    """The agent to ask, of the slice's worker Pods."""
    there = [one for one in pods if not one.ended]
    found = next((one for one in there if wanted.pod_uid and one.metadata.uid == wanted.pod_uid), None)
    if found is None and wanted.any_worker:
        found = next((one for one in there if one.spec.node_name == wanted.node_name), None)
    if found is None:
        worker = f"its worker {wanted.pod_name} is gone" if wanted.pod_name else "no worker is there any more"
        return Refusal(404, "NotFound", f"it was on node {wanted.node_name} of slice {wanted.slice_name}, and {worker}")
    ports = [port for container in found.spec.containers for port in container.get("ports") or ()]
    port = next((one.get("containerPort") for one in ports if one.get("name") == _PORT_NAME), None)
    what = f"the agent in Pod {found.metadata.name} on node {found.spec.node_name}"
    if not port or not found.status.address:
        return Refusal(
            503, "ServiceUnavailable", f"{what} serves no streams (yet): it is starting, or of an older Iris"
        )
    return Target(found.status.address, int(port), agent_host(found.metadata.uid), wanted.path, what)
