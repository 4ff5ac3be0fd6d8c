"""Simulated kubelets: worker Pods start, are heard of by their Leases, and end; nodes that die go NotReady."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta

from iris_operator.api.base import ObjectMeta, OwnerReference, Resource
from iris_operator.api.core import ContainerStatus, CoreCondition, Lease, LeaseSpec, Node, Pod, PodStatus
from iris_operator.api.names import ANNOTATION_AGENT_VERSION, LABEL_MANAGED, LABEL_SLICE
from iris_operator.simulation.agenda import Agenda
from iris_operator.simulation.behaviour import Behaviour
from iris_operator.simulation.machines import Machine, Machines
from iris_operator.simulation.store import Store

# The garbage collector of Pods looks for those whose node is gone this often.
_POD_GC_SECONDS = 20.0
_RUNNING = PodStatus(
    phase="Running",
    conditions=[CoreCondition(type="Ready", status="True", reason="PodReady")],
    container_statuses=[ContainerStatus(name="agent", ready=True, state={"running": {}})],
)
_OVER = PodStatus(
    phase="Failed",
    conditions=[CoreCondition(type="Ready", status="False", reason="PodFailed")],
    container_statuses=[ContainerStatus(name="agent", state={"terminated": {"exitCode": 0, "reason": "Completed"}})],
)
_SILENT = CoreCondition(
    type="Ready", status="Unknown", reason="NodeStatusUnknown", message="Kubelet stopped posting node status."
)
_HEARD = CoreCondition(type="Ready", status="True", reason="KubeletReady")

Drain = Callable[[Pod], float]
"""Tells an agent to stop its Tasks; answers how many seconds that takes."""


class Kubelets:
    """All nodes' kubelets, and the parts of the control plane that judge nodes and sweep Pods."""

    def __init__(self, store: Store, agenda: Agenda, machines: Machines, behaviour: Behaviour, seed: int) -> None:
        self._store, self._agenda, self._machines, self._behaviour = store, agenda, machines, behaviour
        self._rng = random.Random(f"{seed}/kubelets")
        self._on: defaultdict[str, dict[str, str]] = defaultdict(dict)  # node -> Pod uid -> key
        self._agents: dict[str, float] = {}  # Pod uid -> registered at
        self._last_heard: dict[str, float] = {}
        self.drain: Drain = lambda _: 0.0
        self.started: Callable[[Pod], None] = lambda _: None
        store.watch(self._told)
        machines.listeners.append(self._changed)

    def freshen(self, lease: Lease, ahead_seconds: float = 0.0) -> Lease:
        """The Lease with its last renewal; not written one by one, as 1,000 agents renewing would be all there is.

        `ahead_seconds`: a living agent's is dated that far ahead, so that nobody looks again just to see it fresh.
        """
        holder = lease.spec.holder_identity
        registered = self._agents.get(holder)
        if registered is None:
            return lease
        heard = self._last_heard.get(holder)
        if heard is None:
            heard = self._agenda.seconds + ahead_seconds
            if not ahead_seconds:
                heard -= (heard - registered) % self._behaviour.heartbeat_seconds
        renewed = self._agenda.start + timedelta(seconds=heard)
        return lease.model_copy(update={"spec": lease.spec.model_copy(update={"renew_time": renewed})})

    def runs(self, pod_uid: str) -> bool:
        """Whether that Pod's agent has been started and not ended."""
        return pod_uid in self._agents

    def _told(self, before: Resource | None, after: Resource | None) -> None:
        found = after or before
        if not isinstance(found, Pod):
            return
        if before is None:
            self._on[found.spec.node_name][found.metadata.uid] = found.key
            self._agenda.after(self._rng.uniform(*self._behaviour.pod_start_seconds), lambda: self._start(found))
        elif after is None:
            self._on[found.spec.node_name].pop(found.metadata.uid, None)
            self._agents.pop(found.metadata.uid, None)
        elif found.deleting and isinstance(before, Pod):
            if not before.deleting:
                self._end(found)
            elif not found.metadata.finalizers:
                self._let_go(found)

    def _start(self, pod: Pod) -> None:
        found = self._very(pod)
        if found is None or found.deleting or found.status.phase or not self._alive(found):
            return  # a Pod on a machine that can't start it is looked at again when that machine changes
        found = self._store.update(found, status=_RUNNING, anyhow=True)
        self._agents[found.metadata.uid] = self._agenda.seconds
        old = self._store.get(Lease, found.key)
        if old is not None:
            self._store.remove(old)
        self._store.create(_lease(found, self._agenda))
        self.started(found)

    def _end(self, pod: Pod) -> None:
        if not self._alive(pod):
            return  # nobody is there to end it: it hangs until its machine is back or its node is gone
        self._agenda.after(1.0 + self.drain(pod), lambda: self._ended(pod))

    def _ended(self, pod: Pod) -> None:
        if self._alive(pod):
            self._over(pod)

    def _over(self, pod: Pod) -> None:
        found = self._very(pod)
        if found is None:
            return
        self._agents.pop(found.metadata.uid, None)
        if not found.metadata.finalizers:
            self._store.remove(found)
        elif not found.ended:
            # It has killed all that ran, and asks for the Pod's removal: grace period 0 (plan/slices/worker_fence).
            asked = {"deletion_grace_period_seconds": 0}
            self._store.update(found, metadata=asked, status=_OVER, anyhow=True)

    def _let_go(self, pod: Pod) -> None:
        """Nobody holds it any more: it goes, at once when its kubelet is done with it, else by the garbage collector."""
        if pod.ended:
            self._store.remove(pod)
        elif self._store.get(Node, f"/{pod.spec.node_name}") is None:
            self._agenda.after(_POD_GC_SECONDS, lambda: self._over(pod))

    def _changed(self, machine: Machine) -> None:
        if machine.released is not None:
            self._hush(machine)
            self._agenda.after(_POD_GC_SECONDS, lambda: self._sweep(machine))
        elif not machine.registered:
            return
        elif not machine.alive:
            self._hush(machine)
            self._agenda.after(self._behaviour.node_not_ready_seconds, lambda: self._judge(machine))
        else:
            for pod in self._pods(machine):
                self._last_heard.pop(pod.metadata.uid, None)
                self._end(pod) if pod.deleting else self._start(pod)
            self._judge(machine)

    def _hush(self, machine: Machine) -> None:
        for pod in self._pods(machine):
            self._last_heard.setdefault(pod.metadata.uid, self._agenda.seconds)

    def _judge(self, machine: Machine) -> None:
        """The node controller: Unknown when it was not heard of for its time."""
        node = self._store.get(Node, f"/{machine.name}")
        if node is not None and node.ready != machine.alive:
            said = (_HEARD if machine.alive else _SILENT).model_copy(update={"last_transition_time": self._agenda.now})
            status = node.status.model_copy(update={"conditions": [said]})
            self._store.update(node, status=status, anyhow=True)

    def _sweep(self, machine: Machine) -> None:
        """The garbage collector of Pods: their node is gone."""
        for pod in self._pods(machine):
            if not pod.deleting:
                self._store.delete(pod, grace_seconds=0)
            if self._very(pod) is not None:
                self._over(pod)

    def _pods(self, machine: Machine) -> list[Pod]:
        found = (self._store.get(Pod, key) for key in self._on[machine.name].values())
        return [pod for pod in found if pod is not None and pod.metadata.uid in self._on[machine.name]]

    def _alive(self, pod: Pod) -> bool:
        machine = self._machines.by_name.get(pod.spec.node_name)
        return machine is not None and machine.alive

    def _very(self, pod: Pod) -> Pod | None:
        found = self._store.get(Pod, pod.key)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None


def _lease(pod: Pod, agenda: Agenda) -> Lease:
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    labels = {LABEL_MANAGED: "true", LABEL_SLICE: pod.metadata.labels.get(LABEL_SLICE, "")}
    meta = ObjectMeta(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        labels=labels,
        annotations={ANNOTATION_AGENT_VERSION: "simulated"},
        owner_references=[owner],
    )
    return Lease(metadata=meta, spec=LeaseSpec(holder_identity=pod.metadata.uid, renew_time=agenda.now))
