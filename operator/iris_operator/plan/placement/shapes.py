"""What Tasks ask for, told apart once: thousands of Tasks have a handful of shapes, and planning goes by shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from iris_operator.api.cluster import IrisCluster
from iris_operator.api.quantity import Amounts
from iris_operator.api.task import Task
from iris_operator.plan.placement.occupants import Port, fixed_ports
from iris_operator.plan.settings import NoCluster, cluster_for
from iris_operator.plan.tasks.requests import task_requests

_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One Task's needs: where it may run and how much (own units). One object per shape and ledger: compare by identity.

    `others`: what isn't cpu or memory (GPUs, InfiniBand ...); `devices`: their sum. `ports`: those that it must have of its
    node, so that two of one shape with any never share a node.
    """

    cluster: str
    slice_name: str
    scale_group_name: str
    wanted: Amounts
    cpu: int
    memory: int
    others: tuple[tuple[str, int], ...]
    devices: int
    ports: tuple[Port, ...] = ()

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A total order that is the same in every process."""
        where = (self.cluster, self.scale_group_name, self.slice_name)
        return (self.devices, self.cpu, self.memory, self.others, *where, self.ports)


def make_shape(
    wanted: Amounts,
    cluster: str = "default",
    scale_group_name: str = "",
    slice_name: str = "",
    ports: tuple[Port, ...] = (),
) -> Shape:
    """A shape from amounts in own units; zeros are dropped."""
    wanted = {name: value for name, value in wanted.items() if value > 0}
    others = tuple(sorted((name, value) for name, value in wanted.items() if name not in ("cpu", "memory")))
    devices = sum(value for _, value in others)
    cpu, memory = wanted.get("cpu", 0), wanted.get("memory", 0)
    return Shape(cluster, slice_name, scale_group_name, wanted, cpu, memory, others, devices, ports)


@dataclass
class Shapes:
    """The shapes seen under one set of IrisClusters; quantities are parsed once per text."""

    namespace: str
    clusters: tuple[IrisCluster, ...]
    _by_text: dict[tuple[object, ...], Shape] = field(default_factory=dict)
    _by_value: dict[tuple[object, ...], Shape] = field(default_factory=dict)
    _settings: dict[str, IrisCluster | NoCluster] = field(default_factory=dict)

    def renew(self, clusters: tuple[IrisCluster, ...]) -> None:
        """Take over the same IrisClusters with other settings; what shapes are made of (defaults) must be unchanged."""
        self.clusters = clusters
        self._settings.clear()

    def cluster(self, name: str) -> IrisCluster | NoCluster:
        """Whose settings apply to what names `name`."""
        if name not in self._settings:
            self._settings[name] = cluster_for(self.namespace, name, self.clusters)
        return self._settings[name]

    def of(self, task: Task) -> Shape | NoCluster:
        """The Task's shape, or why no settings apply to it."""
        spec = task.spec
        where, resources = spec.placement, spec.resources
        ports = fixed_ports(task) if spec.ports else ()
        text = (
            spec.cluster_name,
            where.slice_name,
            where.scale_group_name,
            tuple(resources.requests.items()),
            tuple(resources.limits.items()),
            ports,
        )
        found = self._by_text.get(text)
        if found is not None:
            return found
        cluster = self.cluster(spec.cluster_name)
        if isinstance(cluster, NoCluster):
            return cluster
        if len(self._by_text) >= _REMEMBERED:
            self._by_text.clear()
        wanted = task_requests(task, cluster.spec.defaults)
        name = cluster.metadata.name
        value = (name, where.slice_name, where.scale_group_name, ports, *sorted(wanted.items()))
        if value not in self._by_value:
            self._by_value[value] = make_shape(wanted, name, where.scale_group_name, where.slice_name, ports)
        self._by_text[text] = self._by_value[value]
        return self._by_value[value]
