"""Plays a scenario in a simulated world."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

from iris_operator.api.base import Resource
from iris_operator.api.cluster import IrisClusterSpec
from iris_operator.api.core import Pod
from iris_operator.api.names import ANNOTATION_SLICE, ANNOTATION_SLICE_UID, LABEL_MANAGED
from iris_operator.api.nodepool import NodePool
from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Availability, Slice
from iris_operator.api.task import Task
from iris_operator.ports.errors import ApiError
from iris_operator.simulation.pace import Pace
from iris_operator.simulation.world import NAMESPACE, World
from tests.properties.scenario import Fault, GroupShape, Job, Scenario, good_vendor

R = TypeVar("R", bound=Resource)

# Small, so that a case is short; each is a setting that people may set so.
SETTINGS: dict[str, Any] = {
    "images": {"agent": "simulated"},
    "timeouts": {"bootSeconds": 900, "initSeconds": 300, "fitSeconds": 60, "orphanSeconds": 120},
    "autoscaler": {
        "evaluationIntervalSeconds": 60, "scaleUpDelaySeconds": 20, "scaleDownDelaySeconds": 120,
        "startupGracePeriodSeconds": 600, "launchGraceSeconds": 40, "backoffSeconds": 30, "maxBackoffSeconds": 240,
    },
}  # fmt: skip
ORPHAN_SECONDS = 120
REPAIR_SECONDS = 120
# From an order until Ready in the good vendor's world, with all that may come between: a slow boot, a Pod's start, turns.
BOOT_SECONDS = 900.0
# Of any stretch that is run at once; a few thousand are usual.
_MANY_STEPS = 100_000
STRANGERS = ("stranger", "of-another-namespace")


class Play:
    """One scenario under way. `until` runs it; the phases of its end are called one by one."""

    def __init__(self, scenario: Scenario, scale_down_seconds: int = 120) -> None:
        self.scenario = scenario
        self._autoscaler = {**SETTINGS["autoscaler"], "scaleDownDelaySeconds": scale_down_seconds}
        rng = random.Random(f"{scenario.seed}/lag")
        delay = (lambda: rng.uniform(0.0, scenario.lag)) if scenario.lag else None
        self.world = World(scenario.behaviour, scenario.seed, Pace(watch_delay=delay, resync_seconds=300.0))
        self.world.crash_at = set(scenario.crashes)

    def begin(self) -> None:
        """Apply everything; plan what comes."""
        world = self.world
        world.apply_cluster(IrisClusterSpec.model_validate({**SETTINGS, "autoscaler": self._autoscaler}))
        self._strangers()
        for shape in self.scenario.groups:
            world.apply_group(group(shape))
        for number, job in enumerate(self.scenario.jobs):
            world.agenda.at(job.at, self._submission(number, job))
        for fault in self.scenario.faults:
            world.agenda.at(fault.at, self._fault(fault))

    def until(self, seconds: float) -> None:
        """Run on to that time since the start. Fails when time stands still: a pass that asks for itself at once."""
        agenda, steps = self.world.agenda, 0
        while agenda.next_seconds is not None and agenda.next_seconds <= seconds:
            agenda.step()
            steps += 1
            assert steps < _MANY_STEPS, f"{steps} steps, and it is {agenda.seconds:.1f} s: {self._passes()}"
        agenda.run_until(seconds)

    def _passes(self) -> str:
        return str(self.world.operator.passes if self.world.operator is not None else "no operator")

    def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        world = self.world
        world.crash_at = set()
        world.jump_clock(0.0)
        world.vendor.heal(good_vendor())
        for machine in list(world.machines.by_name.values()):
            world.vendor.show(machine)
        for found in self._all(Slice):
            self._availability(found, Availability.SCHEDULABLE)
        for invalid in self._all(ScaleGroup):  # what can't be launched as it stands is put right by its owner
            self._relabel(invalid)

    def to_zero(self) -> None:
        """All demand ends, and all groups go to 0."""
        for task in self._all(Task):
            self.world.delete(task)
        for found in self._all(ScaleGroup):
            bounds = {"min_slices": 0, "buffer_slices": 0}
            self.world.store.update(found, spec=found.spec.model_copy(update=bounds), anyhow=True)

    def _strangers(self) -> None:
        """NodePools that are not ours: one of somebody else's, one of Iris in a namespace that is not watched."""
        notes = {ANNOTATION_SLICE: "elsewhere/s", ANNOTATION_SLICE_UID: "unknown"}
        for name, said in zip(STRANGERS, ({}, notes), strict=True):
            labels = {LABEL_MANAGED: "true"} if said else {}
            body = {"metadata": {"name": name, "labels": labels, "annotations": said}}
            self.world.store.create(NodePool.parse(body))

    def _submission(self, number: int, job: Job) -> Callable[[], None]:
        body = {
            "metadata": {"name": f"t{number}"},
            "spec": {
                "image": "x",
                "resources": {"requests": {"cpu": str(job.cpu), "memory": "1Gi"}},
                "placement": {"scaleGroupName": job.group},
                "priority": job.priority,
                "terminationGracePeriodSeconds": 10,
            },
        }
        return lambda: (self.world.submit(Task.parse(body), job.life), None)[1]

    def _fault(self, fault: Fault) -> Callable[[], None]:
        return lambda: self._do(fault)

    def _do(self, fault: Fault) -> None:
        world = self.world
        jump = 60.0 + 3000.0 * fault.size
        actions: dict[str, Callable[[], None]] = {
            "kill operator": lambda: world.kill_operator(1 + 60 * fault.size),
            "operator deposed": lambda: world.depose_operator(8 * fault.size),
            "clock forward": lambda: self._jump(jump),
            "clock back": lambda: self._jump(-jump),
            "node dies": lambda: world.vendor.die(self._node(fault.pick)),
            "node hides": lambda: world.vendor.hide(self._node(fault.pick), 10 + 900 * fault.size),
            "deletes refused": lambda: self._refuse(60 + 600 * fault.size),
            "user deletes slice": lambda: self._with(Slice, fault.pick, world.delete),
            "user drains slice": lambda: self._with(
                Slice, fault.pick, lambda one: self._availability(one, Availability.DRAINED)
            ),
            "user uncordons slice": lambda: self._with(
                Slice, fault.pick, lambda one: self._availability(one, Availability.SCHEDULABLE)
            ),
            "finalizers forced off": lambda: self._with(Slice, fault.pick, self._force_off),
            "user deletes task": lambda: self._with(Task, fault.pick, world.delete),
            "bounds change": lambda: self._with(ScaleGroup, fault.pick, lambda one: self._bounds(one, fault)),
            "template changes": lambda: self._with(ScaleGroup, fault.pick, self._relabel),
            "pod forced off": lambda: self._with(Pod, fault.pick, self._force_pod),
            "pod deleted": lambda: self._with(Pod, fault.pick, world.delete),
        }
        actions[fault.kind]()

    def _jump(self, error: float) -> None:
        """The operator's clock goes wrong, and is put right after a while."""
        self.world.jump_clock(error)
        self.world.agenda.after(400.0, lambda: self.world.jump_clock(0.0))

    def _refuse(self, seconds: float) -> None:
        self.world.vendor.refuses_deletes = True
        self.world.agenda.after(seconds, lambda: setattr(self.world.vendor, "refuses_deletes", False))

    def _node(self, pick: int) -> str:
        names = [one.name for one in self.world.machines.by_name.values() if one.alive]
        return names[pick % len(names)] if names else ""

    def _with(self, model: type[R], pick: int, do: Callable[[R], None]) -> None:
        found = self._all(model)
        if found:
            try:
                do(found[pick % len(found)])
            except ApiError:
                return

    def _all(self, model: type[R]) -> list[R]:
        return list(self.world.store.all(model).values())

    def _availability(self, found: Slice, wanted: Availability) -> None:
        if found.spec.availability is not wanted:
            spec = found.spec.model_copy(update={"availability": wanted})
            self.world.store.update(found, spec=spec, anyhow=True)

    def _force_off(self, found: Slice) -> None:
        """What a person does who has lost patience: the finalizer goes, and the Slice with it."""
        self.world.delete(found)
        current = self.world.store.get(Slice, found.key)
        if current is not None:
            self.world.store.update(current, metadata={"finalizers": []}, anyhow=True)

    def _force_pod(self, found: Pod) -> None:
        """kubectl delete pod --force: the object is to go now, whatever its kubelet does."""
        self.world.store.delete(found, grace_seconds=0)

    def _bounds(self, found: ScaleGroup, fault: Fault) -> None:
        most = round(4 * fault.size)
        bounds = {"min_slices": min(found.spec.min_slices, most), "max_slices": most}
        self.world.store.update(found, spec=found.spec.model_copy(update=bounds), anyhow=True)

    def _relabel(self, found: ScaleGroup) -> None:
        template = found.spec.template.spec
        labels = {"round": str(len(template.node_labels) + int(template.node_labels.get("round", "0")))}
        changed = found.spec.template.model_copy(update={"spec": template.model_copy(update={"node_labels": labels})})
        self.world.store.update(found, spec=found.spec.model_copy(update={"template": changed}), anyhow=True)


def group(shape: GroupShape) -> ScaleGroup:
    """The ScaleGroup of a shape."""
    body = {
        "metadata": {"name": shape.name, "namespace": NAMESPACE},
        "spec": {
            "minSlices": shape.least,
            "maxSlices": shape.most,
            "bufferSlices": shape.buffer,
            "priority": shape.priority,
            "template": {
                "spec": {
                    "instanceType": shape.instance_type,
                    "nodeCount": shape.nodes,
                    "gpusPerNode": 1,
                    "repair": {"policy": "Replace", "delaySeconds": REPAIR_SECONDS},
                }
            },
        },
    }
    return ScaleGroup.parse(body)
