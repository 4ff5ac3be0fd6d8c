"""Inputs through a whole agent: brought, waited for, failed, taken away; and what another agent left."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent import status as say
from iris_operator.agent.inputs.bundle_store import Tell
from iris_operator.agent.inputs.layout import Layout
from iris_operator.agent.inputs.model import Fetching, InputFault, Inputs, Whose
from iris_operator.agent.inputs.prepare import Preparer
from iris_operator.agent.inputs.room import limited, overfull, used_bytes
from iris_operator.agent.memories import Memories
from iris_operator.agent.sandbox.pulls import Pulls
from iris_operator.api.task import Task
from iris_operator.ports.kube import CONFIG_MAPS, EVENTS, SECRETS
from iris_runtimes.protocol import Mount
from tests.unit.iris_operator.agent.build import NOW, task
from tests.unit.iris_operator.agent.harness import Node, until
from tests.unit.iris_operator.agent.inputs.test_unpack import tar

_VALUE = "hunter2"
_ENV = [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "word"}}}]
_VOLUMES: dict[str, Any] = {
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "c", "mountPath": "/c"}],
}
_ARCHIVE = tar(("run.sh", b"true"))
_DIGEST = hashlib.sha256(_ARCHIVE).hexdigest()


async def _secret(node: Node) -> None:
    data = {"word": base64.b64encode(_VALUE.encode()).decode()}
    await node.api.create(
        SECRETS, {"kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "data": data}, "default"
    )


async def _config(node: Node) -> None:
    archive = {"code.tar": base64.b64encode(_ARCHIVE).decode()}
    body = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"level": "debug"}, "binaryData": archive}
    await node.api.create(CONFIG_MAPS, body, "default")


def _spec(node: Node) -> Any:
    (spec,) = node.runtime.specs.values()
    return spec


def _folders(node: Node) -> list[str]:
    """What is left of attempts."""
    root = node.folder / "attempts"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()) if root.is_dir() else []


async def test_the_sandbox_has_them_and_then_nothing_is_left(node: Node) -> None:
    await _secret(node)
    await _config(node)
    async with node.agent():
        uid = await node.bind(
            command=("sleep", "9"), env=_ENV, bundle={"configMap": {"name": "c", "key": "code.tar"}}, **_VOLUMES
        )
        await node.phase("Running")
        spec = _spec(node)
        assert ("WORD", _VALUE) in spec.env
        own = str(node.folder / "attempts" / uid / "1")
        assert [one for one in spec.mounts if one.container_path in ("/v", "/c", "/bundle")] == [
            Mount(f"{own}/volumes/v", "/v"),
            Mount(f"{own}/files/c", "/c", read_only=True),
            Mount(str(node.folder / "bundles" / _DIGEST), "/bundle", read_only=True),
        ]
        node.runtime.finish(spec.id)
        await node.phase("Succeeded")
        await until(lambda: not _folders(node))
    assert (node.folder / "bundles" / _DIGEST / "run.sh").read_text() == "true"


async def test_what_may_come_is_waited_for(node: Node) -> None:
    async with node.agent():
        await node.bind(env=_ENV)
        told = await node.phase("Building")
        assert told["reason"] == "SecretNotFound"
        assert "env WORD: there is no Secret s in namespace default" in told["message"]
        await _secret(node)
        await node.phase("Succeeded")
        assert ("WORD", _VALUE) in _spec(node).env


async def test_a_users_mistake_ends_it_and_leaves_nothing(node: Node) -> None:
    await _config(node)
    bundle = {"configMap": {"name": "c", "key": "code.tar"}, "digest": f"sha256:{'0' * 64}"}
    async with node.agent():
        await node.bind(bundle=bundle, **_VOLUMES)
        status = await node.phase("Failed")
        assert status["reason"] == "BundleDigestMismatch"
        assert node.runtime.started == []
        await until(lambda: not _folders(node))


class _Slow(Preparer):
    """Its bundle comes when it is let."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.api, node.folder, "")
        self.let = asyncio.Event()

    async def prepare(self, task: Task, tell: Tell) -> Inputs:
        tell(Fetching("bundle https://h.test/a.tar", 12 * 2**20, 40 * 2**20))
        await self.let.wait()
        return Inputs()


async def test_a_bundle_that_comes_after_the_image_is_told(node: Node) -> None:
    """Though it said so before the image was there, and nothing since."""
    memories, inputs = Memories(), _Slow(node)
    pulls = Pulls(node.api, node.runtime, inputs, memories, lambda _: None, lambda: NOW)
    found = task(bundle={"configMap": {"name": "c"}})
    pulls.begin(found)
    await until(lambda: (pulling := memories.of(found).pulling) is not None and pulling.fetching)
    pulling = memories.of(found).pulling
    assert pulling is not None
    told = say.pulling(found, pulling, NOW + timedelta(seconds=3))
    assert (told.reason, told.message) == ("Fetching", "fetching bundle https://h.test/a.tar for 3s: 12 of 40 MiB")
    inputs.let.set()
    await until(lambda: memories.of(found).image_digest)
    await pulls.close()


async def test_of_two_failures_the_users_counts(node: Node) -> None:
    """The image is not there and the Secret neither: waiting for the Secret would not bring the image."""
    node.runtime.missing_images.add("registry.test/none:1")
    async with node.agent():
        await node.bind(env=_ENV, image="registry.test/none:1")
        assert (await node.phase("Failed"))["reason"] == "ImageNotFound"


async def test_an_api_server_that_is_away_is_the_platforms(node: Node) -> None:
    """It says nothing of what is there."""
    await node.fake.set_down(True)
    with pytest.raises(InputFault) as caught:
        await Preparer(node.api, node.folder, "").prepare(task(env=_ENV), lambda _: None)
    assert (caught.value.reason, caught.value.whose) == ("InputUnread", Whose.PLATFORM)


async def test_a_plain_task_costs_nothing(node: Node) -> None:
    async with node.agent():
        await node.bind(env=[{"name": "A", "value": "b"}])
        await node.phase("Succeeded")
        assert ("A", "b") in _spec(node).env
    assert not (node.folder / "attempts").exists()
    assert not (node.folder / "trash").exists()


async def test_no_value_is_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await _secret(node)
    async with node.agent():
        await node.bind(env=_ENV, envFrom=[{"secretRef": {"name": "s"}}, {"prefix": "1", "secretRef": {"name": "s"}}])
        await node.phase("Succeeded")
    events = (await node.api.list(EVENTS, "default")).items
    assert [(one["reason"], one["regarding"]["name"]) for one in events] == [("InvalidEnvironmentVariableNames", "t")]
    for told in (caplog.text, events[0]["note"]):
        assert _VALUE not in told
        assert "1word is no name of a variable" in told


async def test_what_earlier_agents_left_of_others_goes(node: Node) -> None:
    left = node.folder / "attempts" / "gone-uid" / "3" / "volumes" / "v"
    left.mkdir(parents=True)
    (node.folder / "trash" / "x" / "y").mkdir(parents=True)
    (node.folder / "bundles" / ".new-z").mkdir(parents=True)
    async with node.agent():
        await node.bind(command=("sleep", "9"), **{**_VOLUMES, "volumes": [_VOLUMES["volumes"][0]],
                                                   "volumeMounts": [_VOLUMES["volumeMounts"][0]]})  # fmt: skip
        await node.phase("Running")
        before = _folders(node)
        assert not any("gone-uid" in one for one in before)
    async with node.agent():  # what runs keeps its own
        await node.phase("Running")
        assert _folders(node) == before
    assert list((node.folder / "trash").iterdir()) == []
    assert list((node.folder / "bundles").iterdir()) == []


async def test_discard_takes_one_attempt_or_all_and_bears_anything(node: Node, tmp_path: Path) -> None:
    preparer = Preparer(node.api, tmp_path, "")
    _mkdir_deep(tmp_path / "attempts" / "u" / "1", 1200)  # deeper than a path may be long
    (tmp_path / "attempts/u/1/link").symlink_to("/etc")
    (tmp_path / "attempts/u/2").mkdir()
    await preparer.discard("u", 1)
    assert [path.name for path in (tmp_path / "attempts/u").iterdir()] == ["2"]
    await preparer.discard("u")
    await preparer.discard("u")
    assert list((tmp_path / "attempts").iterdir()) == list((tmp_path / "trash").iterdir()) == []


def _mkdir_deep(path: Path, depth: int) -> None:
    path.mkdir(parents=True)
    held = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("abcd", dir_fd=held)
        inner = os.open("abcd", os.O_RDONLY, dir_fd=held)
        os.close(held)
        held = inner
    os.close(held)


def test_use_is_measured_as_du_does(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_bytes(bytes(2**20))
    (tmp_path / "a/same").hardlink_to(tmp_path / "a/f")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**30)
    (tmp_path / "link").symlink_to("/usr")
    assert 2**20 <= used_bytes(tmp_path, 2**40) < 2**20 + 2**16


def test_over_its_limit_it_is_ill(tmp_path: Path) -> None:
    found = task(
        volumes=[
            {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "unmounted", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "boundless", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
        volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in ("v", "boundless", "memory")],
    )
    assert limited(found) == {"v": 2**20}
    layout = Layout(tmp_path)
    folder = layout.attempt("uid-t", 1) / "volumes" / "v"
    folder.mkdir(parents=True)
    assert overfull(found, layout) is None
    (folder / "f").write_bytes(bytes(3 * 2**20))
    ill = overfull(found, layout)
    assert ill is not None
    assert ill.reason == "VolumeFull"
    assert ill.words == "its volume v holds 3 MiB or more, and its sizeLimit is 1 MiB"
