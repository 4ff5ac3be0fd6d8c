"""Names that both ends of a connection must agree on."""

from __future__ import annotations

SIGNER = "iris.dev/agent"
AGENT_DOMAIN = "agent.iris.dev"
GATEWAY_USER = "iris-gateway"
"""Common name of the only client that agents listen to."""

CA_SECRET = "iris-ca"
GATEWAY_SECRET = "iris-gateway-tls"
GATEWAY_SERVICE = "iris-gateway"

STREAM_GROUP = "stream.iris.dev"
STREAM_VERSION = "v1alpha1"
API_SERVICE = f"{STREAM_VERSION}.{STREAM_GROUP}"

POD_NAME_CLAIM = "authentication.kubernetes.io/pod-name"
POD_UID_CLAIM = "authentication.kubernetes.io/pod-uid"


def agent_host(pod_uid: str) -> str:
    """The name that the agent of that worker Pod, and no other, can prove."""
    return f"{pod_uid}.{AGENT_DOMAIN}"


def gateway_hosts(namespace: str) -> tuple[str, ...]:
    """Names that the API server calls the gateway by."""
    return tuple(f"{GATEWAY_SERVICE}.{namespace}{end}" for end in (".svc", ".svc.cluster.local"))
