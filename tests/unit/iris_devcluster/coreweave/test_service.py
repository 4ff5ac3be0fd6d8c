"""The keeper that can't start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from iris_devcluster.coreweave import service
from iris_devcluster.errors import DevclusterError


def test_a_keeper_that_dies_is_told_at_once_with_its_last_words(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(DevclusterError, match=r"does not come up: .*No module named"):
        service.start(tmp_path, {"PYTHONHOME": "/nonexistent"})
    assert time.monotonic() - began < 10
    assert not service.state(tmp_path).running
