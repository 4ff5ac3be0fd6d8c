"""What the `node` subcommands do, apart from reading their command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from iris_devcluster.cluster import Cluster
from iris_devcluster.errors import DevclusterError
from iris_devcluster.lifecycle import wait_ready
from iris_devcluster.node.spec import NodeSpec
from iris_devcluster.progress import Progress

_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def parse_spec(
    name: str,
    labels: Iterable[str],
    annotations: Iterable[str],
    taints: Iterable[str],
    reserved: Iterable[str],
) -> NodeSpec:
    """A NodeSpec from command-line words; raises DevclusterError naming the word that is wrong."""
    if not _NODE_NAME.fullmatch(name):
        raise DevclusterError(f"{name!r} can't name a node: use lower-case letters, digits, - and ., at most 63")
    return NodeSpec(
        name=name,
        labels=dict(_pair(word) for word in labels),
        annotations=dict(_pair(word) for word in annotations),
        taints=[_taint(word) for word in taints],
        system_reserved=dict(_pair(word) for word in reserved),
    )


def add(cluster: Cluster, spec: NodeSpec, progress: Progress, wait: bool) -> None:
    """Boot the node and, if asked, wait until it is Ready."""
    with progress.step(f"Node {spec.name}") as step:
        cluster.boot_node(spec)
        if wait:
            wait_ready(cluster, spec.name, step)


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise DevclusterError(f"{word!r} is not KEY=VALUE")
    return key, value


def _taint(word: str) -> dict[str, str]:
    rest, _, effect = word.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in _EFFECTS:
        raise DevclusterError(f"{word!r} is not KEY=VALUE:EFFECT with an effect of {', '.join(_EFFECTS)}")
    return {"key": key, "value": value, "effect": effect}
