"""How the tests are shared out when several processes run them (make test): what shares a cluster stays together."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
# The product's tests would take longest: these have a cluster of their own.
_APART = {"test_capacity.py": "product-capacity", "test_kill_points.py": "product-capacity"}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group per folder below cluster/ and e2e/; all others go one by one."""
    for item in items:
        kind, *folders = item.path.relative_to(_HERE).parent.parts or [""]
        if kind in ("cluster", "e2e"):
            name = _APART.get(item.path.name, "-".join([kind, *folders]))
            item.add_marker(pytest.mark.xdist_group(name))
