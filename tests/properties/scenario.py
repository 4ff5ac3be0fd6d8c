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
    priority: int = 0


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
    "kill operator", "operator deposed",
    "clock forward", "clock back", "node dies", "node hides", "deletes refused", "user deletes slice",
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
        priority=st.sampled_from([0, 0, 0, -1, 1, 10]),
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


RUSH_DELAY_SECONDS = 15


@st.composite
def rush(draw: st.DrawFn) -> Scenario:
    """Short Tasks, one after the other, that come when their slice is just about to be scaled down.

    Now and then the operator's Lease changes hands at that moment, and the old process binds on for a while.
    """
    jobs, faults, end = [], [], 450.0
    near = st.floats(-1.5, 5.0).map(lambda seconds: RUSH_DELAY_SECONDS + seconds)
    gaps = st.one_of(near, near, st.floats(0.5, 40.0))
    for gap, life, deposed in draw(
        st.lists(st.tuples(gaps, st.floats(0.5, 40.0), st.floats(-10.0, 10.0)), min_size=3, max_size=15)
    ):
        at = end + gap
        jobs.append(Job(at, life, 3, ""))
        if deposed > 0:
            faults.append(Fault(at - deposed, "operator deposed", 0, 1.0))
        end = at + life + 3.0
    shape = GroupShape("a", "small", draw(st.integers(0, 1)), draw(st.integers(1, 3)), 0, 0, 1)
    return Scenario(
        seed=draw(st.integers(0, 2**16)),
        groups=(shape,),
        jobs=(Job(0.0, 400.0, 3, ""), *jobs),
        faults=tuple(faults),
        crashes=draw(st.frozensets(st.integers(20, 150), max_size=2)),
        lag=draw(st.sampled_from([0.0, 0.3, 3.0, 6.0])),
        behaviour=good_vendor(),
    )


@st.composite
def partitions(draw: st.DrawFn) -> Scenario:
    """Long Tasks on standing slices whose nodes vanish from sight while somebody ends what they hold."""
    hidden = draw(st.lists(st.tuples(st.integers(600, 1500), st.integers(0, 3)), min_size=1, max_size=3))
    ended = ("pod deleted", "pod forced off", "user deletes slice", "user drains slice", "finalizers forced off")
    later = st.tuples(st.integers(0, 120), st.sampled_from(ended), st.integers(0, 3))
    faults = []
    for at, pick in hidden:
        faults.append(Fault(float(at), "node hides", pick, draw(st.floats(0.2, 1.0))))
        delay, kind, whom = draw(later)
        faults.append(Fault(float(at + delay), kind, whom, 0.5))
    return Scenario(
        seed=draw(st.integers(0, 2**16)),
        groups=(GroupShape("a", "small", 2, 4, 1, 0, 1),),
        jobs=tuple(Job(450.0, 4000.0, 3, "") for _ in range(draw(st.integers(1, 2)))),
        faults=tuple(faults),
        crashes=frozenset(),
        lag=draw(st.sampled_from([0.0, 0.3])),
        behaviour=good_vendor(),
    )


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
