"""The whole of it: an API server, a vendor, kubelets, agents, users and an operator, under simulated time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisCluster, IrisClusterSpec
from iris_operator.api.core import Node
from iris_operator.api.names import ANNOTATION_SLICE
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.task import Task
from iris_operator.plan.groups.fleet import GroupPlan
from iris_operator.ports.errors import NotFoundError
from iris_operator.simulation.agenda import EPOCH, Agenda
from iris_operator.simulation.agents import Agents
from iris_operator.simulation.behaviour import Behaviour
from iris_operator.simulation.fleet_work import FleetWork
from iris_operator.simulation.kubelets import Kubelets
from iris_operator.simulation.machines import Machine, Machines
from iris_operator.simulation.orphan_work import orphan_work
from iris_operator.simulation.pace import Pace
from iris_operator.simulation.process import Crash, Key, Operator, Reconcile
from iris_operator.simulation.routing import ORPHANS, PLACE, SLICE, TASK, WORKER
from iris_operator.simulation.slice_actions import SliceActions
from iris_operator.simulation.slice_work import SliceWork
from iris_operator.simulation.store import Store
from iris_operator.simulation.task_work import task_work, worker_work
from iris_operator.simulation.vendor import Vendor

NAMESPACE = "default"
# A little more than the longest that a Lease may be silent by default (agentLeaseSeconds).
_STALE_SECONDS = 45.0


class World:
    """Deterministic: the same calls with the same seed give the same history."""

    def __init__(
        self,
        behaviour: Behaviour,
        seed: int = 0,
        pace: Pace | None = None,
        start: datetime = EPOCH,
        explain: bool = True,
    ) -> None:
        self.agenda = Agenda(start)
        self.store = Store(self.agenda)
        self.machines = Machines()
        self.vendor = Vendor(self.store, self.agenda, self.machines, behaviour, seed)
        self.kubelets = Kubelets(self.store, self.agenda, self.machines, behaviour, seed)
        self.lives: dict[str, float] = {}
        self.gangs: dict[str, str] = {}
        self.agents = Agents(self.store, self.agenda, self.machines, behaviour, self._life)
        self.kubelets.drain, self.kubelets.started = self.agents.drain, self.agents.started
        self.on_plan: list[Callable[[GroupPlan], None]] = []
        self.crash_at: set[int] = set()
        self.by_user = False
        self.overlap_until = -1.0
        self._deposed: list[Operator] = []
        self.operator_writes = 0
        self.crashes = 0
        self.clock_error = 0.0
        self._pace = pace or Pace()
        self.fleet = FleetWork(self.gangs, self._planned, explain)
        self._reconcilers: dict[str, Reconcile] = {
            SLICE: SliceWork(self.kubelets.freshen, SliceActions(self.vendor.order_labels)),
            TASK: task_work,
            WORKER: worker_work,
            PLACE: self.fleet,
            ORPHANS: partial(orphan_work, NAMESPACE),
        }
        self.operator: Operator | None = None
        if self._pace.lease_ahead_seconds:
            self.machines.listeners.append(self._wake)
        self.store.watch(self._told)
        self.start_operator()

    def start_operator(self) -> None:
        """A new process of the operator, which knows nothing yet."""
        if self.operator is not None and self.operator.alive:
            return
        self.operator = Operator(self.store, self.agenda, self._reconcilers, self._pace)
        self.operator.clock_error = self.clock_error
        self.operator.before_write = self._before_write
        self.operator.on_crash = self._crashed
        self.operator.start()

    def kill_operator(self, down_seconds: float = 5.0) -> None:
        """End its process now; another starts after so long."""
        if self.operator is not None:
            self.operator.kill()
        self.crashes += 1
        self.agenda.after(down_seconds, self.start_operator)

    def depose_operator(self, overlap_seconds: float) -> None:
        """Another replica takes over now; the old one has not noticed yet and goes on for so long."""
        old = self.operator
        if old is None or not old.alive:
            return
        self._deposed = [one for one in self._deposed if one.alive] + [old]
        self.overlap_until = self.agenda.seconds + overlap_seconds
        self.operator = None
        self.start_operator()
        self.agenda.after(overlap_seconds, old.kill)

    def jump_clock(self, error_seconds: float) -> None:
        """From now on the operator's clock is so far ahead of the true time (behind, when negative)."""
        self.clock_error = error_seconds
        if self.operator is not None:
            self.operator.clock_error = error_seconds
            self.operator.add(Key(PLACE, NAMESPACE))

    def apply_cluster(self, spec: IrisClusterSpec) -> None:
        """Make the IrisCluster `default`, or change it."""
        found = self.store.get(IrisCluster, f"{NAMESPACE}/default")
        if found is None:
            body = {"metadata": {"name": "default", "namespace": NAMESPACE}, "spec": spec.wire()}
            self.store.create(IrisCluster.parse(body))
        else:
            self.store.update(found, spec=spec)

    def apply_group(self, group: ScaleGroup) -> ScaleGroup:
        """Make a ScaleGroup, or change its spec."""
        meta = group.metadata.model_copy(update={"namespace": NAMESPACE})
        found = self.store.get(ScaleGroup, f"{NAMESPACE}/{meta.name}")
        if found is None:
            return self.store.create(group.model_copy(update={"metadata": meta}))
        return self.store.update(found, spec=group.spec)

    def submit(self, task: Task, life_seconds: float, gang: str = "") -> Task:
        """Create a Task that will run for so long."""
        self.lives[task.metadata.name] = life_seconds
        meta = task.metadata.model_copy(update={"namespace": NAMESPACE})
        made = self.store.create(task.model_copy(update={"metadata": meta}))
        if gang:
            self.gangs[made.metadata.uid] = gang
        return made

    def delete(self, target: Resource) -> None:
        """A user's deletion."""
        self.by_user = True
        try:
            self.store.delete(target)
        except NotFoundError:
            return
        finally:
            self.by_user = False

    def poke(self) -> None:
        """Let the operator look at the whole fleet once."""
        if self.operator is not None:
            self.operator.add(Key(PLACE, NAMESPACE))

    def _wake(self, machine: Machine) -> None:
        """Leases are dated ahead, so nobody looks when one grows stale: tell."""
        node = self.store.get(Node, f"/{machine.name}")
        pool = self.store.get(NodePool, f"/{machine.pool_name}")
        owner = pool.metadata.annotations.get(ANNOTATION_SLICE, "") if pool is not None else ""
        if node is not None and owner and self.operator is not None:
            operator = self.operator
            self.agenda.after(_STALE_SECONDS, lambda: operator.add(Key(SLICE, owner)))

    def _life(self, task: Task) -> float:
        return self.lives[task.metadata.name]

    def _planned(self, plan: GroupPlan) -> None:
        for told in self.on_plan:
            told(plan)

    def _told(self, before: Resource | None, after: Resource | None) -> None:
        for operator in (*self._deposed, self.operator):
            if operator is not None and operator.alive:
                operator.told(before, after)

    def _before_write(self) -> None:
        self.operator_writes += 1
        if self.operator_writes in self.crash_at:
            raise Crash

    def _crashed(self) -> None:
        self.crashes += 1
        self.agenda.after(5.0, self.start_operator)
