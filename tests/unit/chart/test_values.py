"""Values: each is explained, checked, and known to the schema; a slip is refused with its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.chart.rendering import CHART, Chart

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"operator": {"replica": 2}}, "replica"),
        ({"operator": {"replicas": -1}}, "/operator/replicas"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"watchNamespaces": "ml"}, "/watchNamespaces"),
        ({"watchNamespaces": ["Ml"]}, "/watchNamespaces/0"),
        ({"agent": {"image": {"tag": "a b"}}}, "/agent/image/tag"),
        ({"cluster": {"spec": {"timeout": {}}}}, "timeout"),
        ({"service": {"port": 80}}, "/service/port"),
    ],
)
def test_a_slip_is_refused_by_name(chart: Chart, values: dict[str, Any], named: str) -> None:
    done = chart.run(values)
    assert done.returncode != 0
    assert named in done.stderr


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    free = (
        "global",
        "cluster.spec.",
        "operator.resources.",
        "gateway.resources.",
    )  # Helm's own; the API's; Kubernetes' own
    known = {path for path in _properties(schema) if not path.startswith(free)}
    assert known == {path for path in _paths(values) if not path.startswith(free)}


def test_the_schema_knows_the_parts_of_a_cluster() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    crd = yaml.safe_load((CHART / "files/crds/iris.dev_irisclusters.yaml").read_text())
    parts = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(schema["properties"]["cluster"]["properties"]["spec"]["properties"]) == set(parts)


def test_every_value_has_a_comment_of_its_own() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        within_resources = re.match(r"\s+(requests|limits|cpu|memory):", line)
        if re.match(r"\s*[A-Za-z]+:", line) and not within_resources and not line.endswith("  image:"):
            assert above.strip().startswith("#"), f"no comment above: {line}"


def _paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.")


def _properties(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in schema.get("properties", {}).items():
        yield f"{prefix}{key}"
        yield from _properties(value, f"{prefix}{key}.")
