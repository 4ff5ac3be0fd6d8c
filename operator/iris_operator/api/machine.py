"""A machine that is no Kubernetes node: what its agent says of it on its Lease, and the Node and worker Pod that it stands for.

So whatever plans with Nodes and worker Pods plans with machines too. They are in no API: the Lease is all there is.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError

from iris_operator.api.base import Model, Quantity
from iris_operator.api.core import Lease, Node, Pod
from iris_operator.api.names import ANNOTATION_MACHINE, LABEL_MACHINE, STREAM_PORT


class Machine(Model):
    """One machine, by its agent."""

    node_name: str
    address: str = ""
    stream_port: Annotated[int, Field(ge=1, le=65535)] = STREAM_PORT
    capacity: dict[str, Quantity] = Field(default_factory=dict)
    """What there is for Tasks and the agent: cpu, memory, nvidia.com/gpu -> quantity."""


def is_machine(lease: Lease) -> bool:
    """Whether it is that of an agent outside of Pods."""
    return lease.metadata.labels.get(LABEL_MACHINE) == "true"


def machine_of(lease: Lease) -> Machine | None:
    """What its agent says; None when it is no such Lease, or what it says can't be read."""
    if not is_machine(lease):
        return None
    try:
        return Machine.model_validate_json(lease.metadata.annotations.get(ANNOTATION_MACHINE, ""))
    except ValidationError:
        return None


def machine_node(lease: Lease, machine: Machine) -> Node:
    """The Node that it stands for. That it is there is all that is known: whether it is well, its heartbeat says."""
    return Node.parse(
        {
            "metadata": {"name": machine.node_name, "creationTimestamp": lease.metadata.creation_timestamp},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": machine.capacity},
        }
    )


def machine_pod(lease: Lease, machine: Machine) -> Pod:
    """The worker Pod that it stands for: of the Lease's name, and its holder's uid."""
    meta = lease.metadata
    agent = {
        "name": "agent",
        "ports": [{"name": "stream", "containerPort": machine.stream_port}],
        "resources": {"limits": machine.capacity, "requests": machine.capacity},
    }
    return Pod.parse(
        {
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": lease.spec.holder_identity,
                "labels": meta.labels,
            },
            "spec": {"nodeName": machine.node_name, "containers": [agent]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "hostIP": machine.address,
                "podIP": machine.address,
            },
        }
    )
