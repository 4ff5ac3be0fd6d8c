"""How the tests are shared out when several processes run them (make test): what shares a cluster stays together."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """A process gets a whole folder of cluster/ or e2e/ at a time; of all others, a file."""

    def _split_scope(self, nodeid: str) -> str:
        path = PurePosixPath(nodeid.partition("::")[0])
        return str(path.parent if path.parts[1] in ("cluster", "e2e") else path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByCluster:
    """xdist's hook. Its own --dist loadgroup, with marks, does nothing under pytest 9.2."""
    return ByCluster(config, log)
