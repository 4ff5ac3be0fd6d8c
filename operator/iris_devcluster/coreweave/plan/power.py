"""Which machines should have power, and the step that gets each a little closer."""

from __future__ import annotations

from datetime import datetime, timedelta

from iris_devcluster.coreweave.model import Machine, Power, Snapshot
from iris_devcluster.coreweave.plan.actions import Step, StepKind

SLOW_FACTOR = 10


def boots_at(machine: Machine, snapshot: Snapshot) -> datetime | None:
    """When the machine comes up by itself; None for one that never does."""
    values = snapshot.settings.of(machine.instance_type, machine.pool, machine.name)
    if values.boot == "never":
        return None
    seconds = (values.boot_seconds or 0.0) * (SLOW_FACTOR if values.boot == "slow" else 1)
    return machine.assigned_at + timedelta(seconds=seconds)


def wanted_power(machine: Machine, snapshot: Snapshot, now: datetime) -> Power:
    """Boot faults and delays hold until the machine has registered, power faults always."""
    values = snapshot.settings.of(machine.instance_type, machine.pool, machine.name)
    if values.power == Power.OFF:
        return Power.OFF
    if not machine.registered and machine.power is Power.OFF:
        due = boots_at(machine, snapshot)
        if due is None or now < due:
            return Power.OFF
    return Power(values.power or Power.ON)


def step_for(machine: Machine, snapshot: Snapshot, now: datetime) -> tuple[StepKind, str] | None:
    """What to do to the machine now, with the reason; None when it is as it should be."""
    if machine.releasing:
        return StepKind.REMOVE, "given back"
    wanted = wanted_power(machine, snapshot, now)
    there = machine.name in snapshot.running
    if wanted is Power.OFF:
        return (StepKind.CUT, "power cut") if machine.power is not Power.OFF and there else None
    if machine.power is Power.OFF or not there:
        return StepKind.BOOT, "power on" if there else "boot"
    if wanted is machine.power:
        return None
    return (StepKind.FREEZE, "kubelet stops") if wanted is Power.FROZEN else (StepKind.THAW, "kubelet goes on")


def after(kind: StepKind) -> Power:
    """The machine's power once the step is done."""
    return {StepKind.BOOT: Power.ON, StepKind.CUT: Power.OFF, StepKind.FREEZE: Power.FROZEN, StepKind.THAW: Power.ON}[
        kind
    ]


def next_wake(snapshot: Snapshot, steps: tuple[Step, ...], now: datetime) -> datetime | None:
    """When time alone changes the plan: the next boot or exchange that is due."""
    moments = []
    for machine in snapshot.machines.values():
        if machine.releasing:
            continue
        if machine.power is Power.OFF and not machine.registered:
            moments.append(boots_at(machine, snapshot))
        if machine.dead_since is not None and snapshot.settings.replace_seconds is not None:
            moments.append(machine.dead_since + timedelta(seconds=snapshot.settings.replace_seconds))
    return min((moment for moment in moments if moment is not None and moment > now), default=None)
