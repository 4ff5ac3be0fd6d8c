"""Who gets machines: within quota, within the zone's capacity, by priority and then first come, first served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iris_devcluster.coreweave.model import Machine, Pool, Snapshot
from iris_devcluster.coreweave.plan.validation import problem
from iris_devcluster.coreweave.settings import Settings


@dataclass(frozen=True)
class Grant:
    """One NodePool's share. Counts are machines; `held` leaves out those on their way back."""

    target: int
    held: int
    add: int = 0
    surplus: int = 0
    invalid: str = ""
    quota: int | None = None
    over_quota: bool = False
    waiting: int = 0
    """Within quota, but the zone has no machine for them."""


def target_of(pool: Pool, snapshot: Snapshot) -> int:
    """Nodes wanted; racks count as so many nodes."""
    if pool.deleting:
        return 0
    if pool.target_racks is not None:
        return pool.target_racks * nodes_per_rack(pool, snapshot)
    return pool.target_nodes or 0


def nodes_per_rack(pool: Pool, snapshot: Snapshot) -> int:
    """The vendor's 18, unless the settings say otherwise; 0 for a type that isn't sold by the rack."""
    kind = snapshot.catalogue.get(pool.instance_type)
    if kind is None or not kind.has_racks:
        return 0
    return snapshot.settings.nodes_per_rack or kind.nodes_per_rack


def allocate(snapshot: Snapshot) -> dict[str, Grant]:
    """A grant for every NodePool, by name. Nothing is taken from a NodePool that is under its target."""
    held = held_by_pool(snapshot.machines.values(), snapshot.pools)
    used = Counter(machine.instance_type for machine in snapshot.machines.values() if not machine.releasing)
    taken = Counter(machine.instance_type for machine in snapshot.machines.values())
    grants = {}
    for pool in sorted(snapshot.pools, key=lambda item: (-item.priority, item.created, item.name)):
        grant = _grant(pool, snapshot, held[pool.name], used, taken)
        used[pool.instance_type] += grant.add
        taken[pool.instance_type] += grant.add
        grants[pool.name] = grant
    return grants


def held_by_pool(machines: Iterable[Machine], pools: Iterable[Pool]) -> Counter[str]:
    """How many machines each NodePool holds, by its name; a namesake's leftovers don't count."""
    uids = {pool.name: pool.uid for pool in pools}
    return Counter(
        machine.pool for machine in machines if not machine.releasing and uids.get(machine.pool) == machine.pool_uid
    )


def _grant(pool: Pool, snapshot: Snapshot, held: int, used: Mapping[str, int], taken: Mapping[str, int]) -> Grant:
    target = target_of(pool, snapshot)
    invalid = problem(pool, snapshot.catalogue, snapshot.settings)
    if invalid and not pool.deleting:
        return Grant(target=target, held=held, invalid=invalid)
    quota, capacity = _limits(snapshot.settings, pool)
    wanted = max(0, target - held)
    if not pool.finalized:
        # Without our finalizer the NodePool could vanish and leave its machines behind.
        return Grant(target=target, held=held, quota=quota)
    in_quota = wanted if quota is None else min(wanted, max(0, quota - used[pool.instance_type]))
    available = in_quota if capacity is None else min(in_quota, max(0, capacity - taken[pool.instance_type]))
    return Grant(
        target=target,
        held=held,
        add=available,
        surplus=max(0, held - target),
        quota=quota,
        over_quota=wanted > in_quota,
        waiting=in_quota - available,
    )


def _limits(settings: Settings, pool: Pool) -> tuple[int | None, int | None]:
    values = settings.of(pool.instance_type)
    return values.quota, values.capacity
