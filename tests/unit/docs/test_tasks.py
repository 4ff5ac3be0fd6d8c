"""docs/tasks.md and examples/inputs.yaml are Tasks that the API takes, and name the reasons that the agent gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from iris_operator.api.task import Task
from tests.builders import task

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = (_ROOT / "docs/tasks.md").read_text()
_SNIPPETS = re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)
_INPUTS = _ROOT / "operator/iris_operator/agent/inputs"


@pytest.mark.parametrize("number", range(len(_SNIPPETS)))
def test_every_snippet_is_part_of_a_spec(number: int) -> None:
    part = yaml.safe_load(_SNIPPETS[number])
    wire = task().spec(**part).build().wire()["spec"]
    assert part.keys() <= wire.keys()


def test_the_example_is_a_task_that_gets_what_it_reads() -> None:
    secret, config, body = yaml.safe_load_all((_ROOT / "examples/inputs.yaml").read_text())
    found = Task.parse(body)
    mounted = {mount.name for mount in found.spec.volume_mounts}
    assert mounted == {volume.name for volume in found.spec.volumes}
    assert "token" in secret["stringData"]
    assert {"LEVEL", "settings.yaml", "run.sh"} == config["data"].keys()


def test_every_reason_of_inputs_is_told() -> None:
    code = "".join(path.read_text() for path in sorted(_INPUTS.glob("*.py")))
    reasons = set(re.findall(r'(?:InputFault|Illness)\(\s*"([A-Z]\w+)"', code))
    assert len(reasons) > 15
    assert reasons <= set(re.findall(r"`([A-Z]\w+)`", _PAGE))
