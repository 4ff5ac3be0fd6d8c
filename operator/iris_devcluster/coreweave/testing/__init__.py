"""For tests, ours and others': builders of snapshots, a host without machines, a bare API server, a user's hands.

A test of the operator gets a CoreWeave without nodes' cost: `api_server()`, `install()`, `simulation(kube, host)`.
"""

from iris_devcluster.coreweave.testing.api_server import api_server
from iris_devcluster.coreweave.testing.builders import (
    CPU,
    GB200,
    H100,
    NOW,
    ago,
    applied,
    machine,
    pool,
    reasons,
    snapshot,
)
from iris_devcluster.coreweave.testing.fake_host import FakeHost
from iris_devcluster.coreweave.testing.simulation import Pools, clean, eventually, simulation

__all__ = [
    "CPU",
    "GB200",
    "H100",
    "NOW",
    "FakeHost",
    "Pools",
    "ago",
    "api_server",
    "applied",
    "clean",
    "eventually",
    "machine",
    "pool",
    "reasons",
    "simulation",
    "snapshot",
]
