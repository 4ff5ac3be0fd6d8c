"""top, images, and the logs of several Tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import click
import pytest

from iris_operator.cli import images, logs, top
from iris_operator.cli.log_stream import Wanted
from tests.unit.iris_operator.agent.streams.kit import Gateway
from tests.unit.iris_operator.cli.person import HERE, run_task


async def test_logs_of_several_tasks(gateway: Gateway, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for name, text in (("a", b"1\n2"), ("long", b"x\n")):
        uid = await gateway.task(name)
        gateway.node.write(text, uid=uid)
    await logs._logs(["a", "task/long"], "", False, Wanted(), HERE)
    assert sorted(capsysbinary.readouterr().out.splitlines()) == [b"a    1", b"a    2", b"long x"]
    with pytest.raises(SystemExit):
        await logs._logs(["a", "absent"], "", False, Wanted(), HERE)
    said = capsysbinary.readouterr()
    assert said.out.splitlines() == [b"a      1", b"a      2"]
    assert b"absent: no Task absent in namespace default" in said.err
    with pytest.raises(click.ClickException, match="no Task with labels x=y"):
        await logs._logs([], "x=y", False, Wanted(), HERE)


async def test_top(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    await gateway.slice()
    gateway.node.gpus = 2
    await run_task(gateway, "a", gpus="GPU-a", memory_limit_bytes=2**30)
    await call(top.top_tasks, (), False, "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["TASK", "NODE", "CPU", "MEMORY", "LIMIT"]
    assert lines[1].split() == ["a", "n", "0.00", "512.0", "KiB", "1.0", "GiB", "1", "1", "0", "B"]
    await call(top.top_nodes, (), "", False, "json")
    [node] = json.loads(capsys.readouterr().out)
    assert (node["slice"], node["gpus"], node["gpusGiven"], node["tasks"]) == ("s", 2, 1, 1)
    assert node["cpuCores"] is not None
    with pytest.raises(SystemExit):
        await call(top.top_tasks, ("absent",), False, "table")
    assert "Task absent does not run" in capsys.readouterr().err


async def call(command: click.Command, *arguments: Any) -> None:
    """A command's own code, within this loop."""
    work: list[Coroutine[Any, Any, Any]] = []
    module = top if command.name in ("tasks", "nodes") else images
    callback: Callable[..., None] = command.callback  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_async", work.append)
        callback(*arguments, None, None, None)
    await work[0]


async def test_images_on_all_nodes(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    await gateway.slice("s", group="g")
    await gateway.slice("u")
    await call(images.pull, "a:1", (), "", (), "table")
    out = capsys.readouterr().out.splitlines()
    assert out == [f"{name}/0 n has a:1 (sha256:000000000000)" for name in ("s", "u")]
    await call(images.list_images, (), "g", "json")
    assert [one["slice"] for one in json.loads(capsys.readouterr().out)] == ["s"]
    await call(images.list_images, ("s", "u"), "", "table")
    assert len(capsys.readouterr().out.splitlines()) == 3
    await call(images.remove, "a:1", ("s",), "", "table")
    assert capsys.readouterr().out == "s/0 n no longer has a:1\n"


async def test_images_that_fail_say_where(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    await gateway.slice("s")
    gateway.node.runtime.missing_images.add("b:1")
    with pytest.raises(click.ClickException, match=r"^s/0: no image b:1$"):
        await call(images.pull, "b:1", (), "", (), "table")
    with pytest.raises(click.ClickException, match="no Slice x in namespace default"):
        await call(images.pull, "b:1", ("x",), "", (), "table")
    with pytest.raises(click.ClickException, match="ScaleGroup x has no Slice"):
        await call(images.list_images, (), "x", "table")
