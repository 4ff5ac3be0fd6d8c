"""A node brings what was ordered, or is not fit: GPUs, all of them healthy, and InfiniBand."""

from __future__ import annotations

import pytest

from iris_operator.plan.slices.node_fitness import node_problem
from tests.builders import NodeBuilder, node

_SICK = node(gpu=7).status(capacity={"nvidia.com/gpu": "8"})

# node, GPUs wanted, InfiniBand wanted; the reason and words of the problem
CASES: dict[str, tuple[NodeBuilder, int, bool, str, str]] = {
    "nothing wanted": (node(), 0, False, "", ""),
    "GPUs that nobody wants": (node(gpu=3), 0, False, "", ""),
    "all there": (node(gpu=8, rdma=64), 8, True, "", ""),
    "more than wanted": (node(gpu=8), 4, False, "", ""),
    "without GPUs": (node(), 8, False, "NodeUnfit", "node s-n0 offers 0 of 8 GPUs (nvidia.com/gpu)"),
    "fewer": (node(gpu=7), 8, False, "NodeUnfit", "offers 7 of 8 GPUs (nvidia.com/gpu)"),
    "one is sick": (_SICK, 8, False, "NodeUnfit", "7 of 8 GPUs (nvidia.com/gpu), 1 of its 8 unhealthy"),
    "one is sick, though enough are well": (_SICK, 4, False, "NodeUnfit", "7 of 4 GPUs (nvidia.com/gpu), 1 of its 8 unhealthy"),
    "one is sick, and nobody wants any": (_SICK, 0, False, "", ""),
    "no InfiniBand": (node(gpu=8), 8, True, "NodeUnfit", "node s-n0 offers no InfiniBand (rdma/ib)"),
    "InfiniBand that is used up": (node(rdma=0), 0, True, "NodeUnfit", "offers no InfiniBand"),
    "not Ready is said first": (node().not_ready("R", "starting"), 8, True, "NodeNotReady", "is not Ready: R: starting"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_problem(name: str) -> None:
    built, gpus, infiniband, reason, words = CASES[name]
    found = node_problem(built.build(), gpus, infiniband)
    assert (found.reason if found else "") == reason
    assert words in (found.message if found else "")
    assert found is None or found.unfit == (reason == "NodeUnfit")
