"""The simulated vendor: NodePools become machines, after their time, within quota and capacity, or not at all."""

from __future__ import annotations

import random
from collections import defaultdict

from iris_operator.api.base import Resource
from iris_operator.api.core import CoreCondition, Node
from iris_operator.api.names import GPU_RESOURCE
from iris_operator.api.nodepool import NodePool, NodePoolStatus
from iris_operator.ports.errors import ForbiddenError
from iris_operator.simulation.agenda import Agenda
from iris_operator.simulation.behaviour import Behaviour
from iris_operator.simulation.machines import Machine, Machines
from iris_operator.simulation.store import Store

_HOUR = 3600.0
_NODES_PER_RACK = 18


class Vendor:
    """Looks at each NodePool, orders machines for it, and takes them back."""

    def __init__(self, store: Store, agenda: Agenda, machines: Machines, behaviour: Behaviour, seed: int) -> None:
        self._store, self._agenda, self._machines = store, agenda, machines
        self.behaviour = behaviour
        self._seed = seed
        self._pools: dict[str, NodePool] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._of: defaultdict[str, list[Machine]] = defaultdict(list)
        self._serial: defaultdict[str, int] = defaultdict(int)
        self.refuses_deletes = False
        store.watch(self._told)
        store.guard(self._guard)
        for kind in behaviour.types.values():
            for window in kind.capacity:
                agenda.at(window.start, self.look_at_all)

    def order_labels(self, pool_name: str, labels: dict[str, str]) -> None:
        """The labels that nodes of a NodePool will carry (spec.nodeLabels, which the model does not read back)."""
        self._labels[pool_name] = labels

    def standing(self, pool: NodePool) -> list[Machine]:
        """Machines that are there or on their way, and not given back."""
        return [one for one in self._of[pool.metadata.uid] if one.released is None]

    def heal(self, behaviour: Behaviour) -> None:
        """From now on it behaves like that, and looks at everything anew."""
        self.behaviour = behaviour
        self.refuses_deletes = False
        self.look_at_all()

    def look_at_all(self) -> None:
        """Quota or capacity may have changed: for those that have not all they asked for."""
        for uid, pool in list(self._pools.items()):
            if len(self.standing(pool)) < _target(pool):
                self._look(uid)

    def die(self, name: str) -> None:
        """Its power is gone: processes end now, the API learns of it later; the vendor replaces it."""
        machine = self._machines.by_name.get(name)
        if machine is None or not machine.powered or machine.released is not None:
            return
        machine.powered = False
        self._machines.changed(machine)
        self._agenda.after(self.behaviour.replace_seconds, lambda: self._replace(machine))

    def hide(self, name: str, seconds: float) -> None:
        """Its network is gone for so long: its processes go on, unseen."""
        machine = self._machines.by_name.get(name)
        if machine is None or not machine.alive:
            return
        machine.reachable = False
        self._machines.changed(machine)
        self._agenda.after(seconds, lambda: self.show(machine))

    def show(self, machine: Machine) -> None:
        """Its network is back."""
        if not machine.reachable:
            machine.reachable = True
            self._machines.changed(machine)

    def _told(self, before: Resource | None, after: Resource | None) -> None:
        if isinstance(after, NodePool):
            known = self._pools.get(after.metadata.uid)
            self._pools[after.metadata.uid] = after
            if known is None:
                self._agenda.after(self.behaviour.look_seconds, lambda: self._look(after.metadata.uid))
            elif after.deleting and not known.deleting:
                self._agenda.after(self.behaviour.look_seconds, lambda: self._release(after.metadata.uid))

    def _guard(self, verb: str, target: Resource) -> None:
        if verb == "delete" and self.refuses_deletes and isinstance(target, NodePool):
            raise ForbiddenError(403, "Forbidden", "admission webhook denied the request: maintenance")

    def _look(self, uid: str) -> None:
        pool = self._pools.get(uid)
        if pool is None or pool.deleting:
            return
        kind = self.behaviour.type(pool.spec.instance_type)
        if not kind.valid:
            words = f"instance type does not exist: {pool.spec.instance_type}"
            self._say(pool, [_condition("Validated", "False", "Invalid", words)])
            return
        wanted = _target(pool) - len(self.standing(pool))
        others = sum(
            len(self.standing(one)) for one in self._pools.values() if one.spec.instance_type == pool.spec.instance_type
        )
        over = kind.quota is not None and wanted > 0 and others + wanted > kind.quota
        there = kind.nodes_at(self._agenda.seconds)
        granted = 0 if over else wanted if there is None else max(0, min(wanted, there - others))
        for _ in range(granted):
            self._order(pool)
        self._say(pool, _verdicts(pool, kind.quota if over else None, 0 if over else wanted - granted))

    def _say(self, pool: NodePool, conditions: list[CoreCondition] | None = None) -> None:
        pool = self._pools[pool.metadata.uid]
        machines = self.standing(pool)
        current = sum(one.registered for one in machines)
        status = NodePoolStatus(
            current_nodes=current,
            in_progress=len(machines) - current,
            queued_nodes=max(0, _target(pool) - len(machines)),
            conditions=pool.status.conditions if conditions is None else conditions,
        )
        if status != pool.status:
            self._store.update(pool, status=status, anyhow=True)

    def _order(self, pool: NodePool) -> None:
        number = self._serial[pool.metadata.uid]
        self._serial[pool.metadata.uid] += 1
        rng = random.Random(f"{self._seed}/{pool.metadata.name}/{pool.metadata.uid}/{number}")
        kind = self.behaviour.type(pool.spec.instance_type)
        machine = Machine(
            name=f"{pool.metadata.name}-{number}",
            pool_uid=pool.metadata.uid,
            pool_name=pool.metadata.name,
            instance_type=pool.spec.instance_type,
            ordered=self._agenda.seconds,
            fit=rng.random() >= kind.unfit,
        )
        self._machines.add(machine)
        self._of[pool.metadata.uid].append(machine)
        takes = kind.boot.draw(rng)
        if rng.random() >= kind.never_boots:
            self._agenda.after(takes, lambda: self._register(machine, rng))

    def _register(self, machine: Machine, rng: random.Random) -> None:
        pool = self._pools.get(machine.pool_uid)
        if pool is None or machine.released is not None:
            return
        kind = self.behaviour.type(machine.instance_type)
        gpus = {} if machine.fit else {GPU_RESOURCE: "0"}
        offers = {**kind.resources, **gpus}
        ready = CoreCondition(type="Ready", status="True", reason="KubeletReady", last_transition_time=self._agenda.now)
        node = Node.parse(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": machine.name, "labels": self._labels.get(machine.pool_name, {})},
                "status": {"allocatable": offers, "capacity": offers, "conditions": [ready.wire()]},
            }
        )
        machine.registered = True
        self._store.create(node)
        self._say(pool)
        self._machines.changed(machine)
        if kind.mtbf_hours > 0:
            self._agenda.after(rng.expovariate(1 / (kind.mtbf_hours * _HOUR)), lambda: self.die(machine.name))

    def _replace(self, machine: Machine) -> None:
        pool = self._pools.get(machine.pool_uid)
        if pool is None or pool.deleting or machine.released is not None:
            return
        self._give_back(machine)
        self.look_at_all()

    def _release(self, uid: str) -> None:
        """Its machines go, each in its time; then the NodePool itself."""
        pool = self._pools.get(uid)
        if pool is None:
            return
        standing = self.standing(pool)
        if not standing:
            del self._pools[uid]
            self._store.remove(pool)
            self.look_at_all()
            return
        delay = self.behaviour.release_seconds
        self._agenda.after(delay, lambda: self._released(uid, standing))

    def _released(self, uid: str, machines: list[Machine]) -> None:
        for machine in machines:
            if machine.released is None:
                self._give_back(machine)
        self._say(self._pools[uid])
        self._release(uid)

    def _give_back(self, machine: Machine) -> None:
        machine.released = self._agenda.seconds
        machine.powered = False
        self._machines.changed(machine)
        node = self._store.get(Node, f"/{machine.name}")
        if node is not None:
            self._store.remove(node)


def _target(pool: NodePool) -> int:
    return pool.spec.target_racks * _NODES_PER_RACK or pool.spec.target_nodes


def _condition(kind: str, status: str, reason: str, message: str) -> CoreCondition:
    return CoreCondition(type=kind, status=status, reason=reason, message=message)


def _verdicts(pool: NodePool, quota: int | None, short: int) -> list[CoreCondition]:
    """As CoreWeave words them (docs/coreweave-nodepool.md)."""
    kind = pool.spec.instance_type
    found = [_condition("Validated", "True", "Valid", "Node Pool configuration is valid")]
    if quota is not None:
        words = f"nodePool is over quota for instance type {kind}: quota limit is {quota}"
        return [*found, _condition("Quota", "False", "Over", words)]
    found.append(_condition("Quota", "True", "Under", f"nodePool is under quota for instance type {kind}"))
    if short:
        words = f"{short} of {_target(pool)} nodes wait for capacity of instance type {kind}"
        return [*found, _condition("Capacity", "False", "QueuedAwaitingCapacity", words)]
    return [*found, _condition("Capacity", "True", "Sufficient", "there is capacity for the target")]
