"""The node's Tasks as the API has them: by uid, never older than what was seen before, answers to our writes included."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from pydantic import ValidationError

from iris_operator.api.base import Model
from iris_operator.api.task import Task, TaskSpec
from iris_operator.ports.kube import Body

log = logging.getLogger(__name__)

_REMEMBERED_GONE = 10_000
# What the API server fills in, in every Task: all of them share these.
_FILLED_IN = TaskSpec(image="any")
_FILLED_IN_WIRE = _FILLED_IN.wire()
_SHARED = {
    info.alias: part
    for name, info in TaskSpec.model_fields.items()
    if isinstance(part := getattr(_FILLED_IN, name), Model)
}


class TaskStore:
    """`on_change` is called with the uid of each Task that changed or went."""

    def __init__(self, node_name: str, on_change: Callable[[str], None]) -> None:
        self.tasks: dict[str, Task] = {}
        self._node_name = node_name
        self._on_change = on_change
        # uid -> resourceVersion of its end: a late answer to a write must not bring it back.
        self._gone: OrderedDict[str, int] = OrderedDict()

    def get(self, uid: str) -> Task | None:
        """The Task, when it is bound to this node."""
        return self.tasks.get(uid)

    def observe(self, body: Body, gone: bool = False) -> None:
        """Take an object in, from a list, a watch or the answer to a write."""
        meta = body["metadata"]
        uid, version = str(meta["uid"]), int(meta["resourceVersion"])
        if self._stale(uid, version, gone):  # such as the watch's echo of our own write: not worth parsing
            return
        if gone:
            self.drop(uid, version)
            return
        try:
            task = self._parse(uid, body)
        except ValidationError as error:
            log.warning("Task %s is not understood and left alone: %s", meta["name"], error)
            return
        elsewhere = task.spec.binding is None or task.spec.binding.node_name != self._node_name
        released = task.deleting and not task.metadata.finalizers
        if elsewhere or released:
            self.drop(uid, version)
            return
        self.tasks[uid] = task
        self._on_change(uid)

    def _parse(self, uid: str, body: Body) -> Task:
        known = self.tasks.get(uid)
        if known is not None and known.metadata.generation == body["metadata"].get("generation") != 0:
            # The same spec: neither read again, which is most of the work, nor kept twice.
            return Task.parse({**body, "spec": known.spec})
        said = {name: value for name, value in body["spec"].items() if _FILLED_IN_WIRE.get(name) != value}
        return Task.parse({**body, "spec": {**_SHARED, **said}})

    def drop(self, uid: str, version: int = 0) -> None:
        """It is gone from the API, or from this node."""
        known = self.tasks.pop(uid, None)
        news = known is not None or uid not in self._gone  # else the watch's echo
        self._gone[uid] = max(version, int(known.metadata.resource_version) if known else 0, self._gone.get(uid, 0))
        while len(self._gone) > _REMEMBERED_GONE:
            self._gone.popitem(last=False)
        if news:
            self._on_change(uid)

    def _stale(self, uid: str, version: int, gone: bool) -> bool:
        known = self.tasks.get(uid)
        if known is None:
            return not gone and version <= self._gone.get(uid, -1)
        # The last known object of a relist's missing one is as old as ours, and gone all the same.
        seen = int(known.metadata.resource_version)
        return version < seen if gone else version <= seen
