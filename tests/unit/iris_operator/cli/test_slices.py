"""`iris slice`: what it patches, what it refuses, what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from iris_operator.api.slice import Slice
from iris_operator.cli import slice_wait, slice_work
from iris_operator.cli.main import main
from iris_operator.cli.session import Session, Target
from iris_operator.cli.slice_rows import row
from iris_operator.ports.errors import ForbiddenError
from iris_operator.ports.kube import SLICES, Kind
from tests.builders import NOW, SliceBuilder, at, group_member, slice_
from tests.unit.iris_operator.cli.build import Api


class Protected(Api):
    """An API whose policy protects every slice."""

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, **options: Any) -> None:
        body = await self.get(kind, name, namespace)
        if (body["metadata"].get("annotations") or {}).get("iris.dev/force-delete") != "true":
            words = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: 2 Tasks run on Slice s"
            raise ForbiddenError(403, "Forbidden", f'slices.iris.dev "s" is forbidden: {words}')
        await super().delete(kind, name, namespace, **options)


class Shell:
    """The command line on a fake API."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def make(self, *builders: SliceBuilder) -> None:
        for one in builders:
            asyncio.run(self._make(one.meta(namespace="default").body()))

    def iris(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["slice", *arguments])

    def slice(self, name: str = "s") -> Slice:
        return Slice.parse(asyncio.run(self.api.get(SLICES, name, "default")))

    async def _make(self, body: dict[str, Any]) -> None:
        status = body.pop("status", {})
        await self.api.create(SLICES, body, "default")
        if status:
            name = body["metadata"]["name"]
            await self.api.patch(SLICES, name, {"status": status}, namespace="default", subresource="status")


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def shell(api: Api, monkeypatch: pytest.MonkeyPatch) -> Shell:
    @asynccontextmanager
    async def session(target: Target) -> AsyncIterator[Session]:
        yield api.session

    monkeypatch.setattr(slice_work, "session", session)
    monkeypatch.setattr(slice_wait, "_LOOK_SECONDS", 0.01)
    return Shell(api)


@pytest.mark.parametrize(
    ("verb", "before", "after", "word"),
    [
        ("cordon", "Schedulable", "Cordoned", "cordoned"),
        ("cordon", "Cordoned", "Cordoned", "cordoned already"),
        ("uncordon", "Drained", "Schedulable", "uncordoned"),
        ("uncordon", "Schedulable", "Schedulable", "uncordoned already"),
    ],
)
def test_cordon_and_uncordon(shell: Shell, verb: str, before: str, after: str, word: str) -> None:
    shell.make(slice_("s", availability=before))
    done = shell.iris(verb, "s")
    assert (done.exit_code, done.stdout) == (0, f"slice/s {word}\n")
    assert shell.slice().spec.availability == after


@pytest.mark.parametrize("name", ["s", "slice/s", "slice.iris.dev/s", "sl/s"])
def test_names_as_people_and_kubectl_write_them(shell: Shell, name: str) -> None:
    shell.make(slice_("s"))
    assert shell.iris("cordon", name).stdout == "slice/s cordoned\n"


def test_only_what_is_asked_for_is_patched(shell: Shell) -> None:
    shell.make(slice_("s", holdUntil=at(-60), nodeLabels={"a": "b"}))
    before = shell.slice()
    shell.iris("cordon", "s")
    changed = shell.slice().spec.model_copy(update={"availability": before.spec.availability})
    assert changed == before.spec
    assert shell.slice().metadata.annotations == before.metadata.annotations


def test_uncordon_takes_back_what_its_group_meant_to_do(shell: Shell) -> None:
    retiring = {"iris.dev/retiring": "Idle", "iris.dev/retiring-since": at(5)}
    shell.make(slice_("s", availability="Cordoned").meta(annotations={**retiring, "mine": "1"}))
    shell.iris("uncordon", "s")
    assert shell.slice().metadata.annotations == {"mine": "1"}


def test_several_and_one_that_is_not_there(shell: Shell) -> None:
    shell.make(slice_("a"), slice_("b"))
    done = shell.iris("cordon", "a", "absent", "b", "a")
    assert done.exit_code == 1
    assert done.stdout == "slice/a cordoned\nslice/b cordoned\n"
    assert "no Slice absent in namespace default: iris slice list shows all" in done.stderr


def test_what_is_being_deleted_is_not_cordoned(shell: Shell) -> None:
    shell.make(slice_("s"))
    shell.iris("delete", "s", "--no-wait")
    done = shell.iris("cordon", "s")
    assert done.exit_code == 1 and "is being deleted" in done.stderr


def test_hold_for_and_release(shell: Shell) -> None:
    shell.make(slice_("s"))
    before = datetime.now(UTC)
    assert "slice/s held until 20" in shell.iris("hold", "s", "--for", "2h").stdout
    until = shell.slice().spec.hold_until
    assert until is not None and timedelta() <= until - before + timedelta(seconds=1) - timedelta(hours=2) < timedelta(
        minutes=1
    )
    assert shell.iris("release", "s").stdout == "slice/s released\n"
    assert shell.slice().spec.hold_until is None
    assert shell.iris("release", "s").stdout == "slice/s released already\n"


def test_hold_until(shell: Shell) -> None:
    shell.make(slice_("s"))
    assert shell.iris("hold", "s", "--until", "2100-01-01T00:00Z").exit_code == 0
    assert shell.slice().spec.hold_until == datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "either --for 2h or --until"),
        (["--for", "2h", "--until", "2100-01-01T00:00Z"], "either --for 2h or --until"),
        (["--for", "soon"], "no duration"),
        (["--until", "soon"], "no time"),
        (["--for", "0"], "not in the future"),
        (["--until", "2020-01-01T00:00Z"], "iris slice release"),
    ],
)
def test_a_hold_says_what_it_wants(shell: Shell, options: list[str], words: str) -> None:
    done = shell.iris("hold", "s", *options)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_drain_waits_and_says_the_end(shell: Shell) -> None:
    generation = 2  # of the patch
    drained = {"type": "Drained", "status": "True", "reason": "Drained", "observedGeneration": generation,
               "lastTransitionTime": at(0)}  # fmt: skip
    shell.make(slice_("s").status(conditions=[drained]))
    done = shell.iris("drain", "s")
    assert (done.exit_code, done.stdout) == (0, "slice/s: drained, no Task is left on it\n")
    assert shell.slice().spec.availability == "Drained"


def test_a_drain_that_takes_too_long_says_what_is_left_and_how_to_go_back(shell: Shell) -> None:
    shell.make(slice_("s").status(message="is ready"))
    done = shell.iris("drain", "s", "--timeout", "0")
    assert done.exit_code == 1
    assert "slice/s: is ready" in done.stderr and "iris slice uncordon" in done.stderr
    assert shell.slice().spec.availability == "Drained"


def test_drain_without_waiting(shell: Shell) -> None:
    shell.make(slice_("s"))
    assert shell.iris("drain", "s", "--no-wait").stdout == "slice/s draining\n"


def test_nothing_to_drain_is_a_fault(shell: Shell) -> None:
    done = shell.iris("drain", "absent")
    assert done.exit_code == 1 and "no Slice absent" in done.stderr


def test_delete_waits_until_it_is_gone(shell: Shell) -> None:
    shell.make(slice_("s").meta(finalizers=[]))
    assert shell.iris("delete", "s").stdout == "slice/s: gone\n"


def test_delete_again_only_waits(shell: Shell) -> None:
    shell.make(slice_("s"))
    assert shell.iris("delete", "s", "--no-wait").stdout == "slice/s being deleted\n"
    assert shell.iris("delete", "s", "--no-wait").stdout == "slice/s being deleted\n"
    done = shell.iris("delete", "s", "--timeout", "0")
    assert done.exit_code == 1 and "The deletion goes on" in done.stderr


class TestProtection:
    @pytest.fixture
    def api(self) -> Api:
        return Protected()

    def test_a_refusal_is_the_policys_words(self, shell: Shell) -> None:
        shell.make(slice_("s"))
        done = shell.iris("delete", "s")
        assert (done.exit_code, done.stderr) == (1, "Error: Slice s: 2 Tasks run on Slice s\n")
        assert not shell.slice().deleting

    def test_force_is_the_annotation(self, shell: Shell) -> None:
        shell.make(slice_("s"))
        assert shell.iris("delete", "s", "--force", "--no-wait").exit_code == 0
        assert shell.slice().deleting
        assert shell.slice().metadata.annotations["iris.dev/force-delete"] == "true"


def test_json_of_a_change(shell: Shell) -> None:
    shell.make(group_member("g", "s"))
    (data,) = json.loads(shell.iris("cordon", "s", "-o", "json").stdout)
    assert (data["name"], data["availability"], data["scaleGroupName"]) == ("s", "Cordoned", "g")


def test_json_of_a_wait(shell: Shell) -> None:
    shell.make(slice_("s").meta(finalizers=[]))
    assert json.loads(shell.iris("delete", "s", "-o", "json").stdout) == [
        {"name": "s", "ended": True, "message": "slice/s: gone"}
    ]


def test_list(shell: Shell) -> None:
    shell.make(group_member("g", "a").phase("Ready").status(nodesReady="1/1", message="is ready"), slice_("b"))
    lines = shell.iris("list").stdout.splitlines()
    assert lines[0].split()[:6] == ["NAME", "PHASE", "GROUP", "NODES", "TASKS", "IDLE"]
    assert lines[1].split()[:5] == ["a", "Ready", "g", "1/1", "0"]
    assert [one["name"] for one in json.loads(shell.iris("list", "-g", "g", "-o", "json").stdout)] == ["a"]
    assert [one["name"] for one in json.loads(shell.iris("list", "b", "-o", "json").stdout)] == ["b"]


def test_an_empty_list_says_how_to_begin(shell: Shell) -> None:
    assert "examples/slice.yaml" in shell.iris("list").stdout
    assert "of ScaleGroup g" in shell.iris("list", "-g", "g").stdout


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "yes"),
        ({"availability": "Drained"}, "Drained"),
        ({"holdUntil": at(-7200)}, "yes, held 2.0 h"),
        ({"holdUntil": at(60)}, "yes"),
    ],
)
def test_whether_it_takes_tasks(spec: dict[str, str], words: str) -> None:
    assert row(slice_("s", **spec).build(), NOW)[6] == words
