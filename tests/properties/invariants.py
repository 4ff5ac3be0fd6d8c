"""What must hold at every moment, whatever happens. Each breach is noted, with the time and the names."""

from __future__ import annotations

from iris_operator.api.base import Resource
from iris_operator.api.names import ANNOTATION_RETIRING
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Task
from iris_operator.simulation.agents import Run
from iris_operator.simulation.world import NAMESPACE, World
from tests.properties.driver import ORPHAN_SECONDS, STRANGERS

# Reasons to give a slice back for which its Tasks are moved; for any other it must be without work.
_MOVES = ("Roll", "Expire", "Replace")
# An operator that was down or had its clock wrong, a deletion that was refused: then one look more.
_ORPHAN_SLACK_SECONDS = 400.0
# How long an operator may not have heard yet that a bound was lowered.
_NEWS_SECONDS = 10.0


class Watch:
    """Put on a world before anything happens there. `broken` has a line for each breach."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: list[str] = []
        self._orphans: dict[str, float] = {}
        self._priorities: dict[str, int] = {}  # of every Task there ever was, by name
        self._bounds: list[tuple[float, str, int]] = []  # until when, group, maxSlices
        world.store.watch(self._told)
        world.agents.on_start.append(self._runs_once)

    def check(self) -> None:
        """What is about time; call now and then."""
        now = self._world.agenda.seconds
        for name, since in list(self._orphans.items()):
            pool = self._world.store.get(NodePool, f"/{name}")
            if pool is None or pool.deleting:
                del self._orphans[name]
            elif self._world.vendor.refuses_deletes or not self._operator_well():
                self._orphans[name] = max(since, now - ORPHAN_SECONDS)
            elif now - since > ORPHAN_SECONDS + _ORPHAN_SLACK_SECONDS:
                self._break(f"NodePool {name} has been without a Slice for {now - since:.0f}s")
                del self._orphans[name]

    def _operator_well(self) -> bool:
        operator = self._world.operator
        return operator is not None and operator.alive and operator.clock_error == 0

    def _break(self, words: str) -> None:
        self.broken.append(f"{self._world.agenda.seconds:.1f}: {words}")

    def _told(self, before: Resource | None, after: Resource | None) -> None:
        if isinstance(after, Slice) and before is None:
            self._within_max(after)
        elif isinstance(after, Slice) and isinstance(before, Slice):
            self._changed(before, after)
        elif isinstance(before, Slice):
            self._left_behind(before)
        elif isinstance(before, ScaleGroup) and isinstance(after, ScaleGroup):
            until = self._world.agenda.seconds + _NEWS_SECONDS
            self._bounds.append((until, before.metadata.name, before.spec.max_slices))
        elif isinstance(before, NodePool):
            self._pool(before, after)
        elif isinstance(after, Task):
            self._ranked(after, before if isinstance(before, Task) else None)

    def _ranked(self, task: Task, before: Task | None) -> None:
        """Nobody ends for a Task that doesn't outrank it."""
        self._priorities[task.metadata.name] = task.spec.priority
        binding = task.spec.binding
        told = before is not None and before.spec.binding is not None and before.spec.binding.stop_reason
        if binding is None or binding.stop_reason != "Preempted" or told:
            return
        if self._priorities.get(binding.stop_for, task.spec.priority) <= task.spec.priority:
            self._break(f"Task {task.metadata.name} ends for {binding.stop_for}: {self._priorities}")

    def _within_max(self, made: Slice) -> None:
        """Whatever may bill counts: a failed slice too, as long as it has a NodePool.

        Two replicas that both lead (a Lease taken by force) may each make what is missing: the bound is no promise then.
        """
        if self._world.agenda.seconds <= self._world.overlap_until + _NEWS_SECONDS:
            return
        name, now = made.spec.scale_group_name, self._world.agenda.seconds
        group = self._world.store.get(ScaleGroup, f"{NAMESPACE}/{name}")
        if group is None:
            return
        bound = max([group.spec.max_slices, *(most for until, of, most in self._bounds if of == name and until > now)])
        there = [
            one.metadata.name
            for one in self._world.store.all(Slice).values()
            if one.spec.scale_group_name == name
            and not (one.status.phase is SlicePhase.FAILED and not one.status.node_pool_name)
        ]
        if len(there) > bound:
            self._break(f"group {name} made a slice too many, maxSlices {bound}: {there}")

    def _changed(self, before: Slice, after: Slice) -> None:
        name = after.metadata.name
        if after.deleting and not before.deleting:
            self._scaled_down(before)
        if before.status.node_pool_name and not after.status.node_pool_name:
            pool = self._world.store.get(NodePool, f"/{before.status.node_pool_name}")
            if pool is not None:
                self._break(f"slice {name} says that it bills nothing, but its NodePool stands")

    def _left_behind(self, gone: Slice) -> None:
        pool = self._world.store.get(NodePool, f"/{NAMESPACE}-{gone.metadata.name}")
        if pool is not None:
            self._orphans[pool.metadata.name] = self._world.agenda.seconds

    def _pool(self, before: NodePool, after: Resource | None) -> None:
        name = before.metadata.name
        if name in STRANGERS and (after is None or after.metadata.annotations != before.metadata.annotations):
            self._break(f"the stranger's NodePool {name} was touched")

    def _scaled_down(self, found: Slice) -> None:
        reason = found.metadata.annotations.get(ANNOTATION_RETIRING, "")
        if self._world.by_user or reason in _MOVES or found.status.phase is SlicePhase.FAILED:
            return
        here = [
            task.metadata.name
            for task in self._world.store.all(Task).values()
            if task.spec.binding is not None and task.spec.binding.slice_name == found.metadata.name and not task.ended
        ]
        if here:
            self._break(f"slice {found.metadata.name} was scaled down ({reason}) with {here} on it")

    def _runs_once(self, run: Run) -> None:
        running = self._world.agents.busy(run.uid)
        if len(running) > 1:
            where = [f"attempt {one.attempt} on {one.node}" for one in running]
            self._break(f"Task {run.key} runs {len(running)} times at once: {where}")
