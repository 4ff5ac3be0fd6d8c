"""Every test here runs the real helm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.chart.rendering import Chart


@pytest.fixture
def chart(tmp_path: Path) -> Chart:
    return Chart(tmp_path)
