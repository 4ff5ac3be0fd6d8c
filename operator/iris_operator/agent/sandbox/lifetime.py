"""Containers that outlive their Tasks: which one a Task means, and what is to be done with what is there. Pure.

Such a container is a sandbox that only stays; a Task in it is a sandbox inside it (SandboxSpec.inside). The set-up script
of a fresh one runs inside it too, under a name of its own whose exit stays as long as the container: so what was set up,
is being set up, or failed is the runtime's to say, whatever was killed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from iris_operator.agent.sandbox import labels
from iris_operator.api.member import ContainerSeen, ContainerVerdict
from iris_operator.api.names import bounded_name
from iris_operator.api.task import Task
from iris_runtimes.errors import Fault, RuntimeFault
from iris_runtimes.hold import BUSYBOX, hold_spec
from iris_runtimes.protocol import Mount, Sandbox, SandboxSpec, SandboxState

CONTAINER = "iris.dev/container"  # the id of a container that outlives its Tasks, on it and on all that is in it
IDLE_SECONDS = "iris.dev/idle-seconds"
IMAGE = "iris.dev/image"
MADE_FOR = "iris.dev/made-for"  # the attempt that brought it: Task's uid, /, number
SET_UP = "iris.dev/set-up"  # a set-up script belongs to it
_MAX_ID = 64  # containerd takes 76, and "-setup" is added
_SETUP = "-setup"
_KEPT = (labels.WORKER_UID, labels.IMAGE_DIGEST, labels.TASK_NAMESPACE, labels.HOST_IP)


class ContainerUnfit(RuntimeFault):
    """The container that the Task means is not there, or is not what the Task says."""

    fault = Fault.COMMAND
    who = "user"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Attach:
    """It is there and fits. `warning`: what a person may want to know of it."""

    warning: str = ""


@dataclass(frozen=True)
class Launch:
    """It has to be made; `remains`: what is left of an earlier one goes first."""

    remains: bool = False


def outlives(task: Task) -> bool:
    """Whether the Task's container is not its own."""
    return task.spec.container_lifetime.policy != "PerRun"


def container_of(task: Task) -> str:
    """Sandbox id of the container that the Task means."""
    name = f"hold-{task.metadata.namespace}-{task.spec.container_lifetime.name}"
    return bounded_name(name, _MAX_ID)


def setup_of(container: str) -> str:
    """Sandbox id of the set-up script's run in that container."""
    return container + _SETUP


def judge(task: Task, found: Sandbox | None, image_digest: str, worker_uid: str, node: str) -> Attach | Launch:
    """What to do, by what is there. `image_digest`: what the Task's image stands for on this node now. ContainerUnfit."""
    life, name = task.spec.container_lifetime, task.spec.container_lifetime.name
    if found is None or found.state is not SandboxState.RUNNING or labels.facts(found).worker_uid != worker_uid:
        if life.policy == "NoLaunch":
            raise ContainerUnfit(
                "ContainerNotRunning",
                f"container {name} does not run on node {node}, and containerLifetime.policy NoLaunch starts none: "
                f"run a Task with policy Persistent and name {name} on slice {_slice(task)} first",
            )
        return Launch(remains=found is not None)
    image, digest = found.labels.get(IMAGE, ""), labels.facts(found).image_digest
    if not digest or not image_digest:
        whose = "the Task's" if digest else "its"
        raise ContainerUnfit(
            "ContainerImageUnknown",
            f"container {name} on node {node}: the digest of {whose} image "
            "can't be told, so nobody knows what would run",
        )
    if image != task.spec.image:
        raise ContainerUnfit(
            "ContainerImageMismatch",
            f"container {name} on node {node} runs image {image}, the Task names {task.spec.image}: name that image, or "
            "another container",
        )
    if digest != image_digest:
        return Attach(f"container {name} runs {image} as {digest}; the tag means {image_digest} on node {node} by now")
    return Attach()


def seen(task: Task, found: Sandbox | None, image_digest: str, worker_uid: str) -> ContainerSeen:
    """What a member tells of its node before its start: all members do the same, by what all their nodes have."""
    if found is None or found.state is not SandboxState.RUNNING or labels.facts(found).worker_uid != worker_uid:
        return ContainerSeen(running=False, tag_digest=image_digest)
    digest = labels.facts(found).image_digest
    return ContainerSeen(running=True, image=found.labels.get(IMAGE, ""), image_digest=digest, tag_digest=image_digest)


def verdict_of_all(task: Task) -> ContainerVerdict | None:
    """What the members were told to do about their container; None: nothing yet, or it is no member of any."""
    binding = task.spec.binding
    return binding.member.container if binding is not None and binding.member is not None else None


def hold_to(task: Task, judged: Attach | Launch, found: Sandbox | None, node: str) -> None:
    """ContainerUnfit when what is there is no more what all members were told to expect."""
    told, name = verdict_of_all(task), task.spec.container_lifetime.name
    if told is None:
        return
    if told.action == "Attach" and isinstance(judged, Launch):
        words = f"container {name} has ended on node {node} since all members found it running"
        raise ContainerUnfit("ContainerPartlyRunning", words)
    if told.action == "Launch" and isinstance(judged, Attach):
        assert found is not None
        if found.labels.get(MADE_FOR) != _made_for(task):
            words = f"container {name} was begun on node {node} by another Task since all members found none"
            raise ContainerUnfit("ContainerPartlyRunning", words)


def _made_for(task: Task) -> str:
    assert task.spec.binding is not None
    return f"{task.metadata.uid}/{task.spec.binding.attempt}"


def launch_spec(task: Task, spec: SandboxSpec, busybox: Path, *, with_setup: bool) -> SandboxSpec:
    """The container of a Task's own sandbox `spec`: all of it but the command. `busybox`: a static one on the node."""
    life = task.spec.container_lifetime
    kept = {name: spec.labels[name] for name in _KEPT if name in spec.labels}
    mine = {
        CONTAINER: container_of(task),
        IMAGE: task.spec.image,
        MADE_FOR: _made_for(task),
        IDLE_SECONDS: str(life.idle_seconds),
        labels.GPUS: spec.labels.get(labels.GPUS, ""),
        **({SET_UP: "true"} if with_setup else {}),
    }
    made = replace(
        spec,
        id=container_of(task),
        labels={**kept, **mine},
        env=(),
        log_path=spec.log_path.with_name("container.log"),
        mounts=(*spec.mounts, Mount(str(busybox), BUSYBOX, read_only=True)),
    )
    return hold_spec(made)


def inner_spec(task: Task, spec: SandboxSpec) -> SandboxSpec:
    """The Task's command in its container."""
    container = container_of(task)
    return replace(
        spec, inside=container, labels={**spec.labels, CONTAINER: container}, mounts=(), tmpfs=(), devices=()
    )


def setup_spec(task: Task, spec: SandboxSpec, command: list[str]) -> SandboxSpec:
    """The set-up script in the container, its output in the log of the Task that brought it."""
    container = container_of(task)
    return replace(
        inner_spec(task, spec),
        id=setup_of(container),
        labels={CONTAINER: container, labels.LOG_PATH: str(spec.log_path)},
        command=command,
        args=(),
    )


def _slice(task: Task) -> str:
    return task.spec.binding.slice_name if task.spec.binding is not None else task.spec.placement.slice_name
