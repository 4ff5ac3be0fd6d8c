"""Decisions of the simulated CoreWeave: pure, from a frozen snapshot and the time to a plan. No I/O lives here."""

from iris_devcluster.coreweave.plan.actions import (
    DeviceOffer,
    NodePatch,
    NodeSpec,
    Plan,
    PoolEvent,
    Step,
    StepKind,
)
from iris_devcluster.coreweave.plan.make import make_plan

__all__ = ["DeviceOffer", "NodePatch", "NodeSpec", "Plan", "PoolEvent", "Step", "StepKind", "make_plan"]
