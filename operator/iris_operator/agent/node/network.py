"""Tasks on their worker Pod's own network (worker.hostNetwork false). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from iris_operator.agent.sandbox.labels import facts
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import PodContext, Sandbox


def namespace_to_join(context: PodContext, *, host_network: bool) -> str:
    """Path of the namespace that Tasks' sandboxes join; empty: the node's. NodeFault when the runtime can't tell the Pod's."""
    if host_network:
        return ""
    if not context.network_namespace:
        raise NodeFault("worker.hostNetwork is false, and the runtime does not tell this Pod's network namespace")
    return context.network_namespace


def cut_off(sandboxes: Iterable[Sandbox], worker_uid: str, address: str) -> list[Sandbox]:
    """Those of this worker that were made when its Pod had another address: nothing leads to that network any more.

    The kubelet gives a Pod a new network when the container that held the old one has died.
    """
    ours = (one for one in sandboxes if facts(one).worker_uid == worker_uid)
    return [one for one in ours if facts(one).host_ip not in ("", address)]
