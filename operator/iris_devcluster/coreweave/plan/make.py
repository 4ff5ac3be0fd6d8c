"""One plan from one snapshot: records first, then what they imply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from iris_devcluster.coreweave.model import Labels, Machine, Pool, Power, Snapshot
from iris_devcluster.coreweave.plan import events, release
from iris_devcluster.coreweave.plan.actions import DeviceOffer, NodePatch, Plan, PoolEvent, Step, StepKind
from iris_devcluster.coreweave.plan.allocation import Grant, allocate, nodes_per_rack
from iris_devcluster.coreweave.plan.nodes import labels_of, new_name, offer_of, spec_of
from iris_devcluster.coreweave.plan.power import next_wake, step_for
from iris_devcluster.coreweave.plan.status import Counts, status_of


def make_plan(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do now. Applying it and planning again from what is then true comes to rest."""
    grants = allocate(snapshot)
    records = _observe(snapshot, now)
    records |= {machine.name: machine for machine in _released(snapshot, grants, records, now)}
    assigned = _assigned(snapshot, grants, now)
    after = replace(snapshot, machines={**snapshot.machines, **records, **assigned})
    statuses = {pool.name: status_of(pool, grants[pool.name], _counts(pool, after), now) for pool in snapshot.pools}
    pools = {pool.uid: pool for pool in snapshot.pools}
    steps = _steps(after, pools, now)
    return Plan(
        add_finalizer=tuple(pool.name for pool in snapshot.pools if not pool.finalized and not pool.deleting),
        drop_finalizer=tuple(
            pool.name for pool in snapshot.pools if pool.deleting and pool.finalized and not _machines(pool, after)
        ),
        records=(*records.values(), *assigned.values()),
        steps=steps,
        node_patches=tuple(_patches(after, pools)),
        devices=_devices(after, now),
        statuses={
            pool.name: statuses[pool.name]
            for pool in snapshot.pools
            if _dense(pool.status) != _dense(statuses[pool.name])
        },
        events=tuple(_events(snapshot, grants, records, assigned, statuses)),
        wake_at=next_wake(after, steps, now),
    )


def _observe(snapshot: Snapshot, now: datetime) -> dict[str, Machine]:
    """Records that what is seen has changed: registered, lost power, got it back."""
    found = {}
    for machine in snapshot.machines.values():
        seen = machine
        if not machine.registered and machine.name in snapshot.nodes:
            seen = replace(seen, registered=True)
        dead = machine.registered and machine.power is Power.OFF
        if dead != (machine.dead_since is not None):
            seen = replace(seen, dead_since=now if dead else None)
        if seen is not machine:
            found[machine.name] = seen
    return found


def _released(
    snapshot: Snapshot, grants: Mapping[str, Grant], records: Mapping[str, Machine], now: datetime
) -> list[Machine]:
    seen = replace(snapshot, machines={**snapshot.machines, **records})
    going = [*release.orphans(seen), *release.exchange(seen, now)]
    for pool in snapshot.pools:
        going += release.surplus(pool, grants[pool.name], seen)
    return going


def _assigned(snapshot: Snapshot, grants: Mapping[str, Grant], now: datetime) -> dict[str, Machine]:
    new: dict[str, Machine] = {}
    for pool in snapshot.pools:
        for index in range(grants[pool.name].add):
            name = new_name(pool, index, now, {*snapshot.machines, *snapshot.nodes, *snapshot.running, *new})
            new[name] = Machine(name, pool.name, pool.uid, pool.instance_type, assigned_at=now)
    return new


def _steps(snapshot: Snapshot, pools: Mapping[str, Pool], now: datetime) -> tuple[Step, ...]:
    steps = []
    for machine in snapshot.machines.values():
        found = None if machine.name in snapshot.busy else step_for(machine, snapshot, now)
        if found is None:
            continue
        kind, reason = found
        pool = pools.get(machine.pool_uid)
        spec = spec_of(machine, pool, snapshot) if kind is StepKind.BOOT and pool is not None else None
        steps.append(Step(kind, machine.name, reason, spec))
    return tuple(steps)


def _patches(snapshot: Snapshot, pools: Mapping[str, Pool]) -> list[NodePatch]:
    """Labels and annotations that a Node lacks; the NodePool's may have changed since it booted."""
    found = []
    for machine in snapshot.machines.values():
        node, pool = snapshot.nodes.get(machine.name), pools.get(machine.pool_uid)
        if node is None or pool is None or machine.releasing:
            continue
        wanted = labels_of(pool, snapshot.catalogue[machine.instance_type], snapshot.settings.zone)
        labels, annotations = _missing(wanted, node.labels), _missing(pool.annotations, node.annotations)
        if labels or annotations:
            found.append(NodePatch(node.name, labels, annotations))
    return found


def _missing(wanted: Labels, there: Labels) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if there.get(key) != value}


def _devices(snapshot: Snapshot, now: datetime) -> dict[str, DeviceOffer]:
    """For every machine that has power or gets it now: a plugin that waits for its kubelet is counted at once."""
    found = {}
    for machine in snapshot.machines.values():
        step = step_for(machine, snapshot, now)
        powered = machine.power is not Power.OFF and machine.name in snapshot.running
        if not machine.releasing and (powered or (step is not None and step[0] is StepKind.BOOT)):
            found[machine.name] = offer_of(machine, snapshot)
    return found


def _machines(pool: Pool, snapshot: Snapshot) -> list[Machine]:
    return [machine for machine in snapshot.machines.values() if machine.pool_uid == pool.uid]


def _counts(pool: Pool, snapshot: Snapshot) -> Counts:
    mine = _machines(pool, snapshot)
    return Counts(
        current=sum(machine.name in snapshot.nodes for machine in mine),
        in_progress=sum(machine.name not in snapshot.nodes and not machine.releasing for machine in mine),
        going=sum(machine.releasing for machine in mine),
        per_rack=nodes_per_rack(pool, snapshot),
    )


def _events(
    snapshot: Snapshot,
    grants: Mapping[str, Grant],
    records: Mapping[str, Machine],
    assigned: Mapping[str, Machine],
    statuses: Mapping[str, Mapping[str, object]],
) -> list[PoolEvent]:
    found: list[PoolEvent] = []
    for pool in snapshot.pools:
        changed = [machine for machine in records.values() if machine.pool_uid == pool.uid]
        new = [machine for machine in assigned.values() if machine.pool_uid == pool.uid]
        gone = [machine for machine in changed if machine.releasing and not snapshot.machines[machine.name].releasing]
        found += events.scaling(pool, grants[pool.name].held, new, gone)
        found += [
            events.registered(pool, machine)
            for machine in changed
            if machine.registered and not snapshot.machines[machine.name].registered
        ]
        found += events.transitions(pool, statuses[pool.name])
    return found


def _dense(status: Mapping[str, object]) -> dict[str, object]:
    """As the API server gives it back: null is absent."""
    return {key: value for key, value in status.items() if value is not None}
