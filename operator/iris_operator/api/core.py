"""Kubernetes' own kinds as far as Iris reads them: Node, Pod, Lease, EndpointSlice, CertificateSigningRequest."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Base64Bytes, Field

from iris_operator.api.base import MicroTime, Model, Resource, Time


class CoreCondition(Model):
    """A Node's or Pod's condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class NodeSpec(Model):
    """corev1.NodeSpec."""

    unschedulable: bool = False


class NodeStatus(Model):
    """corev1.NodeStatus."""

    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    conditions: list[CoreCondition] = Field(default_factory=list)


class Node(Resource):
    """A machine of the cluster."""

    KIND: ClassVar[str] = "Node"
    PLURAL: ClassVar[str] = "nodes"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its kubelet says Ready."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    @property
    def ready_since(self) -> datetime | None:
        """Since when its kubelet says Ready; None while it doesn't, or where nobody wrote when."""
        for one in self.status.conditions:
            if one.type == "Ready" and one.status == "True":
                return one.last_transition_time
        return None

    @property
    def why_not_ready(self) -> str:
        """Reason and message of Ready, one line; empty when it is."""
        for one in self.status.conditions:
            if one.type == "Ready" and one.status != "True":
                return f"{one.reason}: {one.message}".strip(": ")
        return "" if self.ready else "no Ready condition yet"


class PodSpec(Model):
    """corev1.PodSpec."""

    node_name: str = ""
    containers: list[dict[str, Any]] = Field(default_factory=list)
    init_containers: list[dict[str, Any]] = Field(default_factory=list)
    overhead: dict[str, str] = Field(default_factory=dict)


class ContainerStatus(Model):
    """corev1.ContainerStatus."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: dict[str, Any] = Field(default_factory=dict)


class PodStatus(Model):
    """corev1.PodStatus."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    host_ip: str = Field(default="", alias="hostIP")
    pod_ip: str = Field(default="", alias="podIP")
    conditions: list[CoreCondition] = Field(default_factory=list)
    container_statuses: list[ContainerStatus] = Field(default_factory=list)

    @property
    def address(self) -> str:
        """Its own; on the node's network that is the node's."""
        return self.pod_ip or self.host_ip


class Pod(Resource):
    """A Pod, here a worker or a neighbour of one."""

    KIND: ClassVar[str] = "Pod"
    PLURAL: ClassVar[str] = "pods"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether all its containers are ready."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    @property
    def ended(self) -> bool:
        """Whether it will never run again (Succeeded, or Failed as after an eviction)."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def why_not_ready(self) -> str:
        """What holds it up, one line: a waiting container's reason, or an unmet condition."""
        for container in self.status.container_statuses:
            waiting = container.state.get("waiting") or {}
            if waiting.get("reason"):
                return f"{waiting['reason']}: {waiting.get('message', '')}".strip(": ")
        for one in self.status.conditions:
            if one.status != "True" and one.message:
                return f"{one.reason}: {one.message}"
        return self.status.message or self.status.phase or "not started yet"


class LeaseSpec(Model):
    """coordinationv1.LeaseSpec."""

    holder_identity: str = ""
    renew_time: MicroTime | None = None


class Lease(Resource):
    """An agent's heartbeat."""

    KIND: ClassVar[str] = "Lease"
    PLURAL: ClassVar[str] = "leases"

    spec: LeaseSpec = LeaseSpec()


class EndpointPort(Model):
    """discoveryv1.EndpointPort."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"


class EndpointConditions(Model):
    """discoveryv1.EndpointConditions. `serving`: as ready, also while it is being ended."""

    ready: bool = False
    serving: bool = False
    terminating: bool = False


class Endpoint(Model):
    """discoveryv1.Endpoint."""

    addresses: list[str] = Field(default_factory=list)
    conditions: EndpointConditions = EndpointConditions()
    node_name: str = ""


class EndpointSlice(Resource):
    """Addresses that a Service leads to."""

    KIND: ClassVar[str] = "EndpointSlice"
    PLURAL: ClassVar[str] = "endpointslices"

    address_type: str = "IPv4"
    endpoints: list[Endpoint] = Field(default_factory=list)
    ports: list[EndpointPort] = Field(default_factory=list)


class RequestSpec(Model):
    """certificatesv1.CertificateSigningRequestSpec. The API server itself fills in `username` and `extra`."""

    request: Base64Bytes
    signer_name: str
    usages: list[str] = Field(default_factory=list)
    expiration_seconds: int | None = None
    username: str = ""
    extra: dict[str, list[str]] = Field(default_factory=dict)


class RequestStatus(Model):
    """certificatesv1.CertificateSigningRequestStatus."""

    conditions: list[CoreCondition] = Field(default_factory=list)
    certificate: Base64Bytes = Field(default=b"", validate_default=False)


class CertificateSigningRequest(Resource):
    """Somebody's wish for a certificate."""

    KIND: ClassVar[str] = "CertificateSigningRequest"
    PLURAL: ClassVar[str] = "certificatesigningrequests"

    spec: RequestSpec
    status: RequestStatus = RequestStatus()

    @property
    def verdict(self) -> str:
        """Approved, Denied or Failed, the last of them; empty while nobody has judged."""
        return self.status.conditions[-1].type if self.status.conditions else ""

    @property
    def why_denied(self) -> str:
        """The words of its refusal."""
        return next((one.message for one in self.status.conditions if one.type in ("Denied", "Failed")), "")
