"""docs/api.md: fresh, and nothing of the models is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_operator.api import reference

ROOT = Path(__file__).parents[4]


def test_the_page_is_what_the_models_say() -> None:
    assert (ROOT / "docs" / "api.md").read_text() == reference.render()


@pytest.mark.parametrize(
    "row",
    [
        "| `instanceType` | string | **required** |",
        "| `timeouts.bootSeconds` | integer | `1800`, ≥ 1, ≤ 604800 |",
        "| `env[].name` | string | **required** |",
        "| `resources.limits` | map of quantity |",
        '| `computeClass` | string | `"default"`, one of `default`, `spot` |',
        "| `nodes[].rank` | integer |",
        "minSlices is above maxSlices",
    ],
)
def test_rows(row: str) -> None:
    assert row in reference.render()


def test_a_stale_page_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    assert reference.main(tmp_path, check=True)
    assert "run make generate" in capsys.readouterr().err
    assert reference.main(tmp_path, check=False)
    assert not reference.main(tmp_path, check=True)
