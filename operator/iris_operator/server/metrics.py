"""The operator's /metrics. Gauges are read from the cache when asked for, so they can't drift; docs/operations.md lists all.

Nothing here is global: each Metrics has its own registry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from iris_operator.api.scalegroup import ScaleGroup
from iris_operator.api.slice import Slice, SlicePhase
from iris_operator.api.task import Task
from iris_operator.server.meter import Labels
from iris_operator.server.tally import BOOT_BUCKETS, Boots, Tally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_GROUP = ("namespace", "group")
# By the controller itself, where it does them.
_COUNTED = {
    "iris_launches_total": "NodePools made.",
    "iris_orphaned_nodepools_total": "NodePools of Iris whose Slice was gone, and that were deleted for it.",
}


@dataclass(frozen=True)
class Sources:
    """Where the values come from; each is asked anew for every scrape.

    `tasks`: those that have not ended. `writes`: API writes by `verb resource`. `counters`: events by metric name.
    """

    leading: Callable[[], bool]
    queued: Callable[[], int]
    groups: Callable[[], Iterable[ScaleGroup]]
    slices: Callable[[], Iterable[Slice]]
    tasks: Callable[[], Iterable[Task]]
    writes: Mapping[str, int]
    counters: Mapping[str, int]


class Metrics(Collector):
    """Prometheus' view of one operator."""

    def __init__(self, sources: Sources, tally: Tally) -> None:
        self._sources, self._tally = sources, tally
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> str:
        """Exposition format 0.0.4."""
        return generate_latest(self._registry).decode()

    def collect(self) -> Iterator[Metric]:
        """All families, for the registry."""
        yield from self._process()
        yield from self._fleet()
        yield from self._events()

    def _process(self) -> Iterator[Metric]:
        sources = self._sources
        leading = int(sources.leading())
        yield GaugeMetricFamily("iris_operator_leading", "Whether this replica leads.", value=leading)
        yield GaugeMetricFamily("iris_operator_queue_depth", "Keys that wait to be reconciled.", value=sources.queued())
        writes = {tuple(name.split(" ", 1)): number for name, number in sources.writes.items()}
        words = "API writes of the operator, refused ones too."
        yield _counter("iris_operator_api_writes_total", words, ("verb", "resource"), writes)

    def _fleet(self) -> Iterator[Metric]:
        groups = list(self._sources.groups())
        slices: Counter[Labels] = Counter(
            {(*_where(group), phase.value): 0 for group in groups for phase in SlicePhase}
        )
        slices.update((*_home(one), _phase(one).value) for one in self._sources.slices())
        yield _gauge(
            "iris_slices", "Slices by phase; group is empty for those made by hand.", (*_GROUP, "phase"), slices
        )
        demand = {_where(group): group.status.demand for group in groups}
        yield _gauge("iris_group_demand_slices", "Slices that waiting Tasks need beyond what is Ready.", _GROUP, demand)
        waiting: Counter[Labels] = Counter(
            (task.metadata.namespace, task.status.reason or "New") for task in self._waiting()
        )
        yield _gauge(
            "iris_tasks_waiting", "Tasks that no slice has room for, by why.", ("namespace", "reason"), waiting
        )
        losses: dict[Labels, float] = {}
        for group in groups:
            losses[*_where(group), "default"] = group.status.losses
            losses[*_where(group), "spot"] = group.status.spot_losses
        words = "Slices that were Ready and lost a node for good."
        yield _counter("iris_slice_losses_total", words, (*_GROUP, "compute_class"), losses)

    def _events(self) -> Iterator[Metric]:
        tally = self._tally
        yield _boots("iris_slice_boot_seconds", "From a NodePool's creation until its nodes were Ready.", tally.boots)
        words = "Decisions of groups' scaling."
        yield _counter("iris_scaling_decisions_total", words, (*_GROUP, "action", "reason"), tally.decisions)
        words = "Slices that failed, by whose fault."
        yield _counter("iris_slice_failures_total", words, (*_GROUP, "kind"), tally.failures)
        words = "Seconds that NodePools of Iris stood, times their nodes: what bills."
        yield _counter("iris_node_seconds_total", words, _GROUP, tally.billed.totals())
        words = "Seconds that slices were ready without a Task, times their nodes."
        yield _counter("iris_slice_idle_node_seconds_total", words, _GROUP, tally.idle.totals())
        for name, words in _COUNTED.items():
            yield _counter(name, words, (), {(): self._sources.counters.get(name, 0)})

    def _waiting(self) -> Iterator[Task]:
        return (task for task in self._sources.tasks() if task.waits and not task.deleting)


def _where(group: ScaleGroup) -> Labels:
    return group.metadata.namespace, group.metadata.name


def _home(one: Slice) -> Labels:
    return one.metadata.namespace, one.spec.scale_group_name


def _phase(one: Slice) -> SlicePhase:
    return one.status.phase or SlicePhase.PENDING


def _gauge(name: str, words: str, labels: Labels, values: Mapping[Labels, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _counter(name: str, words: str, labels: Labels, values: Mapping[Labels, float]) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _boots(name: str, words: str, boots: Mapping[Labels, Boots]) -> Metric:
    family = HistogramMetricFamily(name, words, labels=(*_GROUP, "instance_type"))
    for key, one in sorted(boots.items()):
        buckets = [(str(float(bound)), float(number)) for bound, number in zip(BOOT_BUCKETS, one.at_most, strict=True)]
        family.add_metric(key, [*buckets, ("+Inf", float(one.count))], sum_value=one.seconds)
    return family
