"""Random fleets, schedules of demand, and faults."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from iris_operator.simulation.behaviour import Behaviour, BootTime, InstanceType, Window

HORIZON = 3600.0
TYPES = ("small", "large")
NODE_CPUS = {"small": 4, "large": 8}


@dataclass(frozen=True)
class GroupShape:
    """One ScaleGroup."""

    name: str
    instance_type: str
    least: int
    most: int
    buffer: int
    priority: int
    nodes: int


@dataclass(frozen=True)
class Job:
    """One Task."""

    at: float
    life: float
    cpu: int
    group: str


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, or that a person does. `pick` chooses whom, `size` (0 to 1) how much or how long."""

    at: float
    kind: str
    pick: int
    size: float


@dataclass(frozen=True)
class Scenario:
    """All that happens to one world."""

    seed: int
    groups: tuple[GroupShape, ...]
    jobs: tuple[Job, ...]
    faults: tuple[Fault, ...]
    crashes: frozenset[int]
    lag: float
    behaviour: Behaviour


KIND_OF_FAULT = (
    "kill operator", "clock forward", "clock back", "node dies", "node hides", "deletes refused", "user deletes slice",
    "user drains slice", "user uncordons slice", "finalizers forced off", "user deletes task", "bounds change",
    "template changes", "pod deleted",
)  # fmt: skip

_times = st.integers(0, int(HORIZON)).map(float)


@st.composite
def groups(draw: st.DrawFn) -> tuple[GroupShape, ...]:
    """One to three."""
    found = []
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        most = draw(st.integers(1, 4))
        found.append(
            GroupShape(
                name=name,
                instance_type=draw(st.sampled_from(TYPES)),
                least=draw(st.integers(0, min(2, most))),
                most=most,
                buffer=draw(st.sampled_from([0, 0, 0, 1])),
                priority=draw(st.integers(0, 2)),
                nodes=draw(st.sampled_from([1, 1, 1, 2])),
            )
        )
    return tuple(found)


def jobs() -> st.SearchStrategy[tuple[Job, ...]]:
    """Up to a dozen; some fit nothing."""
    job = st.builds(
        Job,
        at=_times,
        life=st.integers(1, 1500).map(float),
        cpu=st.sampled_from([1, 2, 3, 3, 6, 30]),
        group=st.sampled_from(["", "", "", "a", "b", "nowhere"]),
    )
    return st.lists(job, max_size=12).map(tuple)


def faults(kinds: tuple[str, ...] = KIND_OF_FAULT) -> st.SearchStrategy[tuple[Fault, ...]]:
    """Up to eight."""
    fault = st.builds(
        Fault, at=_times, kind=st.sampled_from(kinds), pick=st.integers(0, 30), size=st.floats(0, 1, width=16)
    )
    return st.lists(fault, max_size=8).map(tuple)


@st.composite
def vendors(draw: st.DrawFn) -> Behaviour:
    """Good ones mostly; else over quota, short of nodes, slow, or with nodes that never boot or come unfit."""
    return Behaviour(types={name: draw(_types(NODE_CPUS[name])) for name in TYPES}, replace_seconds=200.0)


@st.composite
def _types(draw: st.DrawFn, cpus: int) -> InstanceType:
    good = good_type(cpus)
    trouble = draw(st.sampled_from(["", "", "quota", "capacity", "slow", "never", "unfit", "invalid"]))
    changes: dict[str, dict[str, object]] = {
        "": {},
        "quota": {"quota": draw(st.integers(0, 3))},
        "capacity": {
            "capacity": (
                Window(0.0, draw(st.integers(0, 3))),
                Window(draw(_times), draw(st.integers(0, 3))),
            )
        },
        "slow": {"boot": BootTime(700.0, 1500.0)},
        "never": {"never_boots": 0.5},
        "unfit": {"unfit": 0.5},
        "invalid": {"valid": False},
    }
    return InstanceType(**{**good.__dict__, **changes[trouble]})


def good_type(cpus: int) -> InstanceType:
    """Nodes with a GPU that boot in two to seven minutes."""
    resources = {"cpu": str(cpus), "memory": "64Gi", "nvidia.com/gpu": "1"}
    return InstanceType(resources=resources, boot=BootTime(200.0, 400.0, least=120.0))


def good_vendor() -> Behaviour:
    """Gives whatever is asked for."""
    return Behaviour(types={name: good_type(NODE_CPUS[name]) for name in TYPES}, replace_seconds=200.0)


def scenarios(kinds: tuple[str, ...] = KIND_OF_FAULT, crashes: int = 3) -> st.SearchStrategy[Scenario]:
    """Whole worlds."""
    return st.builds(
        Scenario,
        seed=st.integers(0, 2**16),
        groups=groups(),
        jobs=jobs(),
        faults=faults(kinds),
        crashes=st.frozensets(st.integers(1, 150), max_size=crashes),
        lag=st.sampled_from([0.0, 0.3, 3.0]),
        behaviour=vendors(),
    )
