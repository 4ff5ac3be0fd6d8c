"""How long a simulated day takes: 10,000 Tasks on up to 1,000 slices. python -m tests.perf.simulation [TASKS SLICES]"""

from __future__ import annotations

import cProfile
import gc
import os
import pstats
import random
import sys
import time
from collections.abc import Sequence

import click

from iris_operator.simulation.fleet_file import Fleet, parse_fleet
from iris_operator.simulation.result import Result
from iris_operator.simulation.run import Options, simulate
from iris_operator.simulation.workload import Trace, parse_trace

_GROUPS = 8
_DAY = 86400


def day(tasks: int, slices: int, seed: int = 1) -> tuple[Trace, Fleet]:
    """So many Tasks over a day, of one to four GPUs to whole nodes, that keep about that many slices busy at noon."""
    rng = random.Random(seed)
    life = slices * _DAY / max(1, tasks) * 0.6
    rows = ["at,duration,cpu,memory,gpus"]
    for _ in range(tasks):
        at = min(_DAY - 1, max(0, int(rng.gauss(_DAY / 2, _DAY / 5))))
        gpus = rng.choice([2, 4, 8, 8, 8, 8])
        rows.append(f"{at},{int(rng.expovariate(1 / life)) + 60},{gpus * 8},{gpus * 64}Gi,{gpus}")
    documents = [_group(number, slices // _GROUPS) for number in range(_GROUPS)]
    return parse_trace("\n".join(rows), "csv"), parse_fleet(["---\n".join(documents)])


def _group(number: int, most: int) -> str:
    return f"""
apiVersion: iris.dev/v1alpha1
kind: ScaleGroup
metadata: {{name: g{number}}}
spec:
  maxSlices: {most}
  priority: {10 - number}
  nodeResources: {{cpu: 120, memory: 1900Gi}}
  template: {{spec: {{instanceType: type-{number}, gpusPerNode: 8}}}}
"""


def measure(tasks: int, slices: int) -> tuple[float, Result, int]:
    """Seconds of processor time, what came of it, and the most slices that stood at once."""
    trace, fleet = day(tasks, slices)
    gc.disable()  # as the command does
    began = time.process_time()
    result = simulate(trace, fleet, Options())
    took = time.process_time() - began
    return took, result, max(sum(point.nodes.values()) for point in result.points)


def main(arguments: Sequence[str]) -> None:
    """Print the figures; PROFILE=1 in the environment prints where the time goes."""
    tasks, slices = (int(arguments[0]), int(arguments[1])) if len(arguments) > 1 else (10_000, 1_000)
    profile = cProfile.Profile()
    if os.environ.get("PROFILE"):
        profile.enable()
    took, result, most = measure(tasks, slices)
    profile.disable()
    click.echo(
        f"{tasks} Tasks on {slices} slices: {took:.1f} s of processor time for {result.seconds / 3600:.1f} h; "
        f"{result.ended} ended, {most} nodes at most, {sum(one.slices_made for one in result.bills)} slices made"
    )
    if os.environ.get("PROFILE"):
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main(sys.argv[1:])
