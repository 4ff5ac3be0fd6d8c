"""docs/configuration.md names only fields that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from iris_operator.api import crd

PAGE = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()
_KINDS = {model.KIND: crd.openapi_schema(model) for model in crd.KINDS}
_PATHS = sorted(set(re.findall(r"`((?:IrisCluster|ScaleGroup|Slice|Task)\.(?:spec|status)[A-Za-z.\[\]]*)`", PAGE)))


@pytest.mark.parametrize("path", _PATHS)
def test_the_field_is_there(path: str) -> None:
    kind, *parts = path.replace("[]", ".items").split(".")
    found: dict[str, Any] = _KINDS[kind]
    for part in parts:
        found = found["items"] if part == "items" else found["properties"][part]
    assert found


def test_the_page_names_many() -> None:
    assert len(_PATHS) >= 12
