"""What images are called, in a registry and in the chart's values."""

from __future__ import annotations

import yaml

from iris_devcluster.images.build import Built
from iris_devcluster.images.oci import Config, assemble
from iris_devcluster.images.publish import helm_values, references


def _built(name: str) -> Built:
    return Built(name, assemble([], Config(entrypoint=(name,))), "1.2.3")


def test_the_tag_by_content_comes_first() -> None:
    agent = _built("agent")
    assert references(agent, "registry.iris:5000") == [
        f"registry.iris:5000/iris/agent:{agent.image.tag}",
        "registry.iris:5000/iris/agent:1.2.3",
        "registry.iris:5000/iris/agent:dev",
    ]


def test_given_tags_are_the_only_ones() -> None:
    assert references(_built("agent"), "host/path", ["v1", "v2"]) == [
        "host/path/iris/agent:v1",
        "host/path/iris/agent:v2",
    ]


def test_helm_gets_tags_that_change_with_the_content() -> None:
    agent, task = _built("agent"), _built("task")
    assert yaml.safe_load(helm_values([agent, task], "r:5000")) == {
        "image": {"registry": "r:5000"},
        "agent": {"image": {"tag": agent.image.tag}},
    }
