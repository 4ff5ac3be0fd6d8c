from __future__ import annotations

import pytest

from iris_operator.api.core import Node
from iris_operator.plan.slice_nodes import node_problem

CASES = {
    "not wanted": (False, {}, ""),
    "wanted and there": (True, {"rdma/ib": "64"}, ""),
    "wanted and missing": (True, {}, "node n offers no InfiniBand (rdma/ib)"),
    "wanted and none left": (True, {"rdma/ib": "0"}, "node n offers no InfiniBand (rdma/ib)"),
}


@pytest.mark.parametrize("name", CASES)
def test_infiniband(name: str) -> None:
    wanted, offered, said = CASES[name]
    conditions = [{"type": "Ready", "status": "True"}]
    node = Node.parse({"metadata": {"name": "n"}, "status": {"allocatable": offered, "conditions": conditions}})
    assert node_problem(node, 0, wanted) == said
