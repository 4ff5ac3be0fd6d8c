"""What a plan may ask for. The controller's apply module carries each out with one API call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iris_operator.api.core import Node, Pod
from iris_operator.api.nodepool import NodePool
from iris_operator.api.slice import Slice
from iris_operator.api.task import Binding, Task


@dataclass(frozen=True)
class AddFinalizer:
    """Hold the object's deletion until Iris has given back what it stands for."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """Nothing is left: let the object go."""


@dataclass(frozen=True)
class ApplyNodePool:
    """Make the slice's NodePool, or put right what is ours of it."""


@dataclass(frozen=True)
class DeleteNodePool:
    """Give the nodes back."""

    node_pool: NodePool


@dataclass(frozen=True)
class CreateWorker:
    """Make the worker Pod of a rank, as large as its node allows."""

    rank: int
    node: Node


@dataclass(frozen=True)
class DeleteWorker:
    """End a worker Pod; at once (`force`) only when its node is gone for good."""

    pod: Pod
    force: bool = False


@dataclass(frozen=True)
class StopTask:
    """Have the agent end this attempt of a Task within its grace period, for `reason`; `stop_for`: name of the Task that
    takes its place. `note`: told once that is written."""

    task: Task
    reason: str
    stop_for: str = ""
    note: Note | None = None


@dataclass(frozen=True)
class Preempt:
    """Stop Tasks of lower priority so that `task` has room. `note`: told of it once all are."""

    task: Task
    stops: tuple[StopTask, ...]
    note: Note


@dataclass(frozen=True)
class BindTask:
    """Place a Task: finalizer and binding in one write, only if it is still the version decided on."""

    task: Task
    binding: Binding


@dataclass(frozen=True)
class CreateSlice:
    """Make a Slice of a ScaleGroup. That it exists already (a former answer was lost) is success."""

    name: str
    reason: str = ""


@dataclass(frozen=True)
class CordonSlice:
    """First step of giving a slice back: no new Task, annotations iris.dev/retiring(-since). At this very version only."""

    slice: Slice
    reason: str


@dataclass(frozen=True)
class UncordonSlice:
    """It is wanted after all: Schedulable again, annotations gone. At this very version only."""

    slice: Slice
    reason: str


@dataclass(frozen=True)
class DeleteSlice:
    """Delete this very Slice (UID), at this very version: anything that happened to it since refuses the deletion."""

    slice: Slice
    reason: str


@dataclass(frozen=True)
class Note:
    """An Event for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


SliceAction = AddFinalizer | RemoveFinalizer | ApplyNodePool | DeleteNodePool | CreateWorker | DeleteWorker | StopTask
GroupAction = CreateSlice | CordonSlice | UncordonSlice | DeleteSlice
