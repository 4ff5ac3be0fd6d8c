"""Set-up on a whole agent: what a container gets for it, how far it is told to be, how it fails; a Task without pays nothing."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from iris_operator.agent.sandbox import inotify
from iris_operator.ports.kube import TASKS
from tests.unit.iris_operator.agent.build import binding
from tests.unit.iris_operator.agent.harness import Node, until

SETUP: list[dict[str, Any]] = [{"name": "first", "command": ["one"]}, {"command": ["two", "it's"]}]


class Container:
    """What runs in the fake's container: the test."""

    def __init__(self, node: Node, uid: str, attempt: int = 1) -> None:
        self._node, self._uid, self._attempt = node, uid, attempt
        self.id = f"task-{uid}-{attempt}"

    @property
    def folder(self) -> Path:
        return self._node.folder / "attempts" / self._uid / str(self._attempt)

    async def begun(self) -> None:
        await until(lambda: self.id in self._node.runtime.sandboxes)

    def at(self, words: str) -> None:
        (self.folder / "stage").write_text(words)

    def exits(self, code: int, log: str = "") -> None:
        self._node.write_log(self._uid, log, self._attempt)
        self._node.runtime.finish(self.id, code)


async def setting_up(node: Node, **spec: Any) -> Container:
    made = Container(node, await node.bind(command=("sleep", "100"), setup=SETUP, **spec))
    await made.begun()
    return made


async def test_what_a_container_gets(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node)
        spec = node.runtime.specs[inside.id]
        assert (spec.before, spec.command) == (["/run/iris/bin/busybox", "sh", "/run/iris/start"], ["sleep", "100"])
        mounts = {one.container_path: (Path(one.host_path), one.read_only) for one in spec.mounts}
        assert mounts["/run/iris/start"] == (inside.folder / "start", True)
        assert mounts["/run/iris/stage"] == (inside.folder / "stage", False)
        assert "/run/iris/setup-script" not in mounts
        busybox, read_only = mounts["/run/iris/bin"]
        assert read_only and busybox.parent == node.folder / "bin"
        assert (busybox / "busybox").read_text() == "a static busybox"
        assert (busybox / "busybox").stat().st_mode & 0o777 == 0o755
        assert (inside.folder / "stage").stat().st_mode & 0o777 == 0o666
        assert "step 1 one\nstep 2 two 'it'\"'\"'s'\n" in (inside.folder / "start").read_text()


async def test_a_task_without_pays_nothing(node: Node) -> None:
    async with node.agent():
        uid = await node.bind()
        await node.phase("Succeeded")
        spec = node.runtime.specs[f"task-{uid}-1"]
    assert spec.before == () and not any("iris" in one.container_path for one in spec.mounts)
    assert not (node.folder / "bin").exists() and not (node.folder / "attempts" / uid).exists()
    assert node.status_writes() == 1


async def test_quick_set_up_costs_no_write(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node)
        inside.at("at 1\n")
        inside.at("command\n")
        await node.phase("Running")
        inside.exits(0)
        await node.phase("Succeeded")
    assert node.status_writes() == 2


async def test_slow_set_up_is_told_step_by_step(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node)
        inside.at("at 1\n")
        os.utime(inside.folder / "stage", (time.time(), time.time()))
        status = await node.phase("Building")
        assert status["reason"] == "SettingUp"
        assert status["message"].startswith("set-up command 1 of 2 (first) runs since ")
        inside.at("command\n")
        status = await node.phase("Running")
        assert status["reason"] == "Started"


async def test_its_failure_has_name_code_and_last_line(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node)
        inside.at("failed 1 3\n")
        inside.exits(3, "trying\nno such \x1b[31mhost\n\n")
        status = await node.phase("Failed")
        await until(lambda: not inside.folder.exists())
    assert (status["reason"], status["exitCode"]) == ("SetupFailed", 3)
    assert status["message"] == ("set-up command 1 of 2 (first) failed: exit code 3; its last line: no such �[31mhost")
    assert "startTime" not in status


async def test_an_agent_that_comes_in_between_reads_the_file(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node)
        inside.at("at 2\n")
    inside.at("command\n")
    async with node.agent():
        await node.phase("Running")
    inside.exits(0)
    async with node.agent():
        await node.phase("Succeeded")
    assert node.runtime.started == [inside.id]


async def test_one_that_failed_while_no_agent_looked(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node)
    inside.at("failed 2 1\n")
    inside.exits(1, "why\n")
    async with node.agent():
        assert (await node.phase("Failed"))["message"].endswith(
            "set-up command 2 of 2 failed: exit code 1; its last line: why"
        )


async def test_a_retry_sets_up_again(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node, retryPolicy={"user": 1})
        inside.at("failed 1 3\n")
        inside.exits(3)
        status = await node.over()
        assert status["attempts"][0]["reason"] == "SetupFailed"
        assert not inside.folder.exists()


async def test_deleted_while_it_sets_up(node: Node) -> None:
    async with node.agent():
        inside = await setting_up(node, lifecycle={"preStop": {"exec": {"command": ["true"]}}})
        await node.api.delete(TASKS, "t", "default")
        await node.gone()
        await until(lambda: not inside.folder.exists())
    assert node.runtime.signals == [(inside.id, 15)] and not node.runtime.sessions


async def test_a_script_is_mounted_with_its_text(node: Node) -> None:
    async with node.agent():
        life = {"setupScript": {"inline": "echo hello\n"}}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        uid = await node.bind(command=("sleep", "9"), containerLifetime=life, binding=binding(boundAt=now))
        inside = Container(node, uid)
        await inside.begun()
        mounts = {one.container_path: one for one in node.runtime.specs[inside.id].mounts}
        assert Path(mounts["/run/iris/setup-script"].host_path).read_text() == "echo hello\n"
        assert mounts["/run/iris/setup-script"].read_only
        inside.at("failed 0 1\n")
        inside.exits(1)
        assert (await node.phase("Failed"))["message"].startswith("the set-up script failed: exit code 1")


async def test_a_script_that_never_ends_is_stopped(node: Node) -> None:
    async with node.agent():
        life = {"setupScript": {"inline": "sleep 100"}, "startTimeoutSeconds": 1}
        uid = await node.bind(command=("sleep", "100"), containerLifetime=life)
        status = await node.phase("Failed")
    assert status["reason"] == "StartTimeout"
    assert node.runtime.signals in ([], [(f"task-{uid}-1", 15)])  # that limit may pass before the start


async def test_no_watch_to_be_had(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(inotify.Inotify, "watch", none_left)
    async with node.agent():
        inside = await setting_up(node)
        await asyncio.sleep(0.05)
        inside.at("command\n")
        await node.phase("Running")


async def test_no_busybox_is_told(node: Node) -> None:
    async with node.agent():
        (node.folder / "image-busybox").unlink()
        await node.bind(setup=SETUP)
        status = await node.phase("Building")
        (node.folder / "image-busybox").write_text("x")
        await until(lambda: node.runtime.started)
    assert "no static busybox" in status["message"] and "IRIS_BUSYBOX" in status["message"]
