"""`iris simulate` and `iris record-trace`, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from iris_operator.cli.main import main
from iris_operator.cli.record_trace import trace_rows
from iris_operator.simulation.workload import parse_trace
from tests.builders import NOW, at, member, task

EXAMPLES = Path(__file__).parents[4] / "examples" / "simulation"
FLEET = str(EXAMPLES / "fleet.yaml")


@pytest.mark.parametrize("trace", ["trace.yaml", "trace.csv"])
def test_examples_run(trace: str) -> None:
    done = CliRunner().invoke(main, ["simulate", str(EXAMPLES / trace), "--fleet", FLEET, "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["tasks"]["submitted"] == found["tasks"]["ended"] > 0
    assert found["nodeHours"] > 0


def test_report_and_picture(tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    arguments = ["simulate", str(EXAMPLES / "trace.csv"), "--fleet", FLEET, "--plot", str(picture)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    for words in ("NODE-HOURS", "p95", "ScaleUp", "# busy", "Tasks that wait"):
        assert words in done.output
    assert "\x1b" not in done.output
    assert picture.read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plot", "run.gif"], "neither .svg nor .png"),
        (["--until", "soon"], "is no duration"),
    ],
)
def test_wrong_options(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(main, ["simulate", str(EXAMPLES / "trace.csv"), "--fleet", FLEET, *arguments])
    assert done.exit_code == 2
    assert words in done.output


def test_what_was_recorded_can_be_simulated() -> None:
    ran = task("ran").requests(cpu="4", gpu=2).made(600).status(startTime=at(500), finishTime=at(200)).build()
    runs = task("runs").limits(memory="1Gi").made(300).status(startTime=at(100)).build()
    assert trace_rows([runs, ran], NOW, everything=False) == [
        {"name": "ran", "at": "2026-11-21T11:50:00Z", "duration": "300s", "cpu": "4", "gpus": 2}
    ]
    both = yaml.safe_dump({"tasks": trace_rows([runs, ran], NOW, everything=True)})
    trace = parse_trace(both, "yaml")
    assert [(one.task.metadata.name, one.at, one.life) for one in trace.submissions] == [
        ("ran", 0, 300),
        ("runs", 300, 100),
    ]


def test_replicas_are_recorded_once_and_run_together() -> None:
    times = {"startTime": at(500), "finishTime": at(200)}
    parent = task("t", replicas=2).requests(cpu="1").made(600).status(**times).build()
    members = [member("t", rank).requests(cpu="1").made(600).status(**times).build() for rank in range(2)]
    (row,) = trace_rows([*members, parent], NOW, everything=False)
    assert (row["name"], row["count"], row["gang"]) == ("t", 2, True)
    trace = parse_trace(yaml.safe_dump({"tasks": [row]}), "yaml")
    assert [(one.task.metadata.name, one.gang) for one in trace.submissions] == [("t-0", "t"), ("t-1", "t")]
