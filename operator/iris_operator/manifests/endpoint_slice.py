"""The EndpointSlice by which a Task's ports join its Service."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from iris_operator.api.core import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from iris_operator.api.names import ENDPOINTS_MANAGER, LABEL_ENDPOINTS_BY, LABEL_SERVICE, endpoint_name
from iris_operator.api.task import Task
from iris_operator.ports.kube import ENDPOINT_SLICES


def endpoint_slice(task: Task, conditions: EndpointConditions) -> dict[str, Any]:
    """Its body, owned by the Task. The Task must have an address (status.hostIP, or ValueError) and be bound."""
    binding, status = task.spec.binding, task.status
    assert binding is not None
    address = ip_address(status.host_ip)
    endpoint = Endpoint(addresses=[str(address)], conditions=conditions, node_name=binding.node_name)
    ports = [EndpointPort(name=one.name, port=one.port, protocol=one.protocol) for one in status.ports]
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": EndpointSlice.KIND,
        "metadata": {
            "name": endpoint_name(task.metadata.name, task.metadata.uid),
            "namespace": task.metadata.namespace,
            "labels": {LABEL_SERVICE: task.spec.service_name, LABEL_ENDPOINTS_BY: ENDPOINTS_MANAGER},
            "ownerReferences": [task.owner_reference()],
        },
        "addressType": f"IPv{address.version}",
        "endpoints": [endpoint.wire()],
        "ports": [one.wire() for one in ports],
    }


def says_the_same(found: EndpointSlice, wanted: dict[str, Any]) -> bool:
    """Whether what is there is what is wanted, as far as it is ours."""
    other = EndpointSlice.parse(wanted)
    mine = {name: found.metadata.labels.get(name) for name in other.metadata.labels}
    return (
        mine == other.metadata.labels
        and (found.address_type, found.endpoints, found.ports) == (other.address_type, other.endpoints, other.ports)
        and [one.uid for one in found.metadata.owner_references] == [one.uid for one in other.metadata.owner_references]
    )
