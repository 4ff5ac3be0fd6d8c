"""Runs a trace on a fleet from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iris_operator.simulation.agenda import EPOCH
from iris_operator.simulation.fleet_file import Fleet
from iris_operator.simulation.pace import Pace
from iris_operator.simulation.recorder import Recorder
from iris_operator.simulation.result import Result, conclude
from iris_operator.simulation.workload import Submission, Trace
from iris_operator.simulation.world import World

_FOREVER = 10**9
_STRIDE_SECONDS = 600.0
# Nothing started or ended for so long, and nothing more comes: what is left waits for ever.
_PATIENCE_SECONDS = 86400.0
# A pass costs by the Tasks there are: a day of 10,000 is looked at every minute or so, one of 1,000 every six seconds.
_SECONDS_TIMES_TASKS = 1.5e7
_COARSEST = 60.0
_EVALUATION_SECONDS = 10.0  # the operator's own, evaluationIntervalSeconds

Progress = Callable[[float, int, int], None]
"""Told now and then: seconds simulated, Tasks ended, Tasks in all."""


@dataclass(frozen=True)
class Options:
    """`resolution`: what happens within so many seconds is looked at together; None: as its length and its Tasks bear it.

    `tail`: seconds to go on after the last Task's end.
    """

    seed: int = 0
    resolution: float | None = None
    tail: float = 3600.0
    until: float | None = None


def simulate(trace: Trace, fleet: Fleet, options: Options, progress: Progress = lambda *_: None) -> Result:
    """The same trace, fleet and options give the same result."""
    last = trace.submissions[-1].at if trace.submissions else 0.0
    fine = options.resolution if options.resolution is not None else _fine(last, len(trace.submissions))
    pace = Pace(
        pass_seconds=fine,
        fleet_seconds=max(_EVALUATION_SECONDS, 2 * fine),
        counts_seconds=fine,
        resync_seconds=_FOREVER,
        lease_ahead_seconds=_FOREVER,
    )
    world = World(fleet.behaviour, options.seed, pace, trace.start or EPOCH, explain=False)
    recorder = Recorder(world)
    world.apply_cluster(fleet.cluster)
    for group in fleet.groups:
        world.apply_group(group)
    for one in trace.submissions:
        world.agenda.at(one.at, _submission(world, one))
    while world.agenda.next_seconds is not None and not _over(world, recorder, options, last):
        world.agenda.run_until(world.agenda.seconds + _STRIDE_SECONDS)
        progress(world.agenda.seconds, len(recorder.lives) - recorder.unfinished, len(trace.submissions))
    return conclude(recorder, fleet.groups)


def _fine(seconds: float, tasks: int) -> float:
    return min(_COARSEST, max(1.0, seconds * tasks / _SECONDS_TIMES_TASKS))


def _submission(world: World, one: Submission) -> Callable[[], None]:
    return lambda: (world.submit(one.task, one.life, one.gang), None)[1]


def _over(world: World, recorder: Recorder, options: Options, last: float) -> bool:
    now = world.agenda.seconds
    if options.until is not None:
        return now >= options.until
    if now <= last:
        return False
    recent = max((life.finished or life.started or 0.0 for life in recorder.lives.values()), default=0.0)
    if recorder.unfinished:
        return not recorder.running and now > max(last, recent) + _PATIENCE_SECONDS
    return now > recent + options.tail
