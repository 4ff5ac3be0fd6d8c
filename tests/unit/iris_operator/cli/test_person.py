"""exec, cp, port-forward, top, images and the logs of several Tasks: both ends together, on the fake runtime."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from iris_operator.api.streams import Channel
from iris_operator.cli import cp, images, logs, port_forward, top
from iris_operator.cli import exec as exec_module
from iris_operator.cli.log_stream import Wanted
from iris_operator.cli.objects import get_task
from iris_operator.cli.session import Session, Target
from iris_operator.cli.task_exec import ExecError, Request, Screen, execute
from iris_operator.cli.transfer import Progress, Unpacker, pack, size_text
from iris_runtimes.execution import ExecRequest
from iris_runtimes.fake_session import FakeSession
from tests.unit.iris_operator.agent.streams.kit import Gateway, stream_node

HERE = Target(None, None, None)


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    async with stream_node(tmp_path) as node:
        found = Gateway(node)

        @asynccontextmanager
        async def session(target: Target) -> AsyncIterator[Session]:
            yield found.cli

        for module in (cp, exec_module, images, logs, port_forward, top):
            monkeypatch.setattr(module, "session", session)
        monkeypatch.setattr(top, "_APART_SECONDS", 0.01)
        yield found


async def run_task(gateway: Gateway, name: str = "t", **more: Any) -> str:
    uid = await gateway.task(name)
    await gateway.node.start(name, uid=uid, **more)
    return uid


class Heard:
    """Takes what a command writes."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Channel, bytes]] = []

    async def take(self, channel: Channel, data: bytes) -> None:
        self.pieces.append((channel, data))


async def source(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_exec_passes_everything_on(gateway: Gateway) -> None:
    await run_task(gateway)
    heard = Heard()
    assert await execute(gateway.cli, "t", Request(["cat"], source(b"ab", b"\xff\x00")), heard.take) == 0
    assert b"".join(data for _, data in heard.pieces) == b"ab\xff\x00"
    assert await execute(gateway.cli, "t", Request(["sh", "-c", "exit 9"]), heard.take) == 9
    heard.pieces.clear()
    await execute(gateway.cli, "t", Request(["sh", "-c", "echo oh >&2"]), heard.take)
    assert heard.pieces == [(Channel.STDERR, b"oh\n")]


async def test_exec_with_a_screen(gateway: Gateway) -> None:
    await run_task(gateway)

    async def sizes() -> AsyncIterator[tuple[int, int]]:
        yield 99, 9
        await asyncio.Event().wait()

    async def typed() -> AsyncIterator[bytes]:
        while not sessions or sessions[-1].size != (99, 9):
            await asyncio.sleep(0.005)
        yield b"x"

    sessions = gateway.node.runtime.sessions
    running = asyncio.create_task(
        execute(gateway.cli, "t", Request(["cat"], typed(), Screen(lambda: (80, 25), sizes), "/w"), Heard().take)
    )
    while not sessions:
        await asyncio.sleep(0.005)
    asked = sessions[-1].request
    assert (asked.columns, asked.rows, asked.terminal, asked.working_dir) == (80, 25, True, "/w")
    assert await running == 0


async def test_exec_of_a_command_that_is_not_there(gateway: Gateway) -> None:
    await run_task(gateway)
    with pytest.raises(ExecError, match="/nonexistent is not in the image") as caught:
        await execute(gateway.cli, "t", Request(["/nonexistent"]), Heard().take)
    assert caught.value.exit_code == 127


async def test_exec_whose_connection_breaks_off(gateway: Gateway) -> None:
    await run_task(gateway)

    async def break_off(channel: Channel, data: bytes) -> None:
        await gateway.node.session.connector.close()  # type: ignore[union-attr]

    with pytest.raises(ExecError, match=r"connection .* broke off"):
        await execute(gateway.cli, "t", Request(["cat"], endless()), break_off)


async def endless() -> AsyncIterator[bytes]:
    yield b"x"
    await asyncio.Event().wait()


async def test_exec_of_a_task_that_is_not_there_or_does_not_run(gateway: Gateway) -> None:
    with pytest.raises(click.ClickException, match="no Task absent in namespace default"):
        await exec_module._exec("absent", ("true",), False, False, "", HERE)
    await gateway.task("t")
    with pytest.raises(click.ClickException, match=r"^attempt 1 of the Task does not run on this node \(any more\)$"):
        await exec_module._exec("t", ("true",), False, False, "", HERE)


async def test_a_source_that_breaks_is_told(gateway: Gateway) -> None:
    await run_task(gateway)

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise click.ClickException("reading x: no")

    with pytest.raises(click.ClickException, match="reading x"):
        await execute(gateway.cli, "t", Request(["cat"], broken()), Heard().take)


class TarSession(FakeSession):
    """A command that is told what to do: `tar` to unpack keeps what it is given, to pack gives `gives`."""

    gives = b""
    exit_code = 0
    words = b""
    got = bytearray()
    asked: list[tuple[str, ...]] = []  # noqa: RUF012 each test makes a class of its own
    folders: set[str] = set()  # noqa: RUF012

    def _begin(self, words: Any, env: Any) -> None:
        self.asked.append(tuple(words))
        from iris_runtimes.execution import Output, Stream

        if words[0] == "test":
            self.end(0 if words[2] in self.folders else 1)
        elif "-cf" in words:
            for at in range(0, len(self.gives), 1000):
                self._out.put_nowait(Output(Stream.STDOUT, self.gives[at : at + 1000]))
            if self.words:
                self._out.put_nowait(Output(Stream.STDERR, self.words))
            self.end(self.exit_code)

    async def write(self, data: bytes) -> None:
        self.got.extend(data)

    async def end_input(self) -> None:
        self.end(self.exit_code)


@pytest.fixture
def tar(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> type[TarSession]:
    class Here(TarSession):
        got = bytearray()
        asked: list[tuple[str, ...]] = []  # noqa: RUF012
        folders = {"/work"}  # noqa: RUF012

    real = gateway.node.runtime.execute

    async def run(sandbox_id: str, request: ExecRequest) -> FakeSession:
        await real(sandbox_id, ExecRequest([request.command[0], *request.command[1:]]))
        return Here(request, {})

    monkeypatch.setattr(gateway.node.runtime, "execute", run)
    return Here


def tree(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "big").write_bytes(os.urandom(700_000))
    (folder / "run.sh").write_text("echo hi\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    return folder


@pytest.mark.parametrize(
    ("path", "place", "name"), [("/work", "/work", "src"), ("/new/there", "/new", "there"), ("/x/", "/x", "src")]
)
async def test_cp_into_a_task(
    gateway: Gateway, tar: type[TarSession], tmp_path: Path, path: str, place: str, name: str
) -> None:
    await run_task(gateway)
    source = tree(tmp_path / "src")
    await cp._upload(source, "t", path, HERE)
    assert tar.asked[-1] == ("tar", "-xof", "-", "-C", place)
    (tmp_path / "out").mkdir()
    with tarfile.open(fileobj=io.BytesIO(bytes(tar.got))) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    assert same(source, tmp_path / "out" / name)


def same(one: Path, other: Path) -> bool:
    files = sorted(path.relative_to(one) for path in one.rglob("*"))
    assert files == sorted(path.relative_to(other) for path in other.rglob("*"))
    for file in files:
        if (one / file).is_file():
            assert (one / file).read_bytes() == (other / file).read_bytes()
            assert (one / file).stat().st_mode == (other / file).stat().st_mode
    return True


async def packed(source: Path, name: str) -> bytes:
    return b"".join([piece async for piece in pack(source, name, Progress())])


@pytest.mark.parametrize(("target", "found"), [("there", "there/src"), ("renamed", "renamed")])
async def test_cp_out_of_a_task(
    gateway: Gateway, tar: type[TarSession], tmp_path: Path, target: str, found: str
) -> None:
    await run_task(gateway)
    source = tree(tmp_path / "src")
    tar.gives = await packed(source, "src")
    (tmp_path / "there").mkdir()
    await cp._download("t", *cp._target_of("/w/src", tmp_path / target), HERE)
    assert tar.asked[-1] == ("tar", "-cf", "-", "-C", "/w", "src")
    assert same(source, tmp_path / found)


async def test_cp_of_one_file_under_another_name(gateway: Gateway, tar: type[TarSession], tmp_path: Path) -> None:
    await run_task(gateway)
    (tmp_path / "a").write_text("words")
    tar.gives = await packed(tmp_path / "a", "a")
    await cp._download("t", *cp._target_of("a", tmp_path / "b"), HERE)
    assert (tmp_path / "b").read_text() == "words"


async def test_cp_says_tars_words(gateway: Gateway, tar: type[TarSession], tmp_path: Path) -> None:
    await run_task(gateway)
    tar.words, tar.exit_code = b"tar: nix: No such file or directory\n", 1
    with pytest.raises(click.ClickException, match="tar in the Task ended with 1: tar: nix: No such file"):
        await cp._download("t", *cp._target_of("/nix", tmp_path), HERE)


@pytest.mark.parametrize("missing", [{"tar"}, {"tar", "test", "/run/iris/bin/busybox"}])
async def test_cp_without_tar(gateway: Gateway, tar: type[TarSession], tmp_path: Path, missing: set[str]) -> None:
    await run_task(gateway)
    gateway.node.runtime.missing_commands = missing
    (tmp_path / "a").write_text("words")
    if len(missing) == 1:  # the agent's busybox is there
        await cp._upload(tmp_path / "a", "t", "/b", HERE)
        assert tar.asked[-1] == ("/run/iris/bin/busybox", "tar", "-xof", "-", "-C", "/")
        return
    with pytest.raises(click.ClickException, match="has no tar"):
        await cp._upload(tmp_path / "a", "t", "/b", HERE)
    with pytest.raises(click.ClickException, match="has no tar"):
        await cp._download("t", *cp._target_of("/a", tmp_path), HERE)


def archive_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, target
    return found


async def test_nothing_is_unpacked_outside(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "in"
    folder.mkdir()
    data = archive_of(
        (tarfile.TarInfo("a/../../evil"), b"1"), (link("a/out", "/etc"), b""), (link("a/up", "../../x"), b""),
        (tarfile.TarInfo("a/good"), b"2"), (link("a/hard", "a/good", tarfile.LNKTYPE), b""),
        (link("a/pipe", "", tarfile.FIFOTYPE), b""), (tarfile.TarInfo("/a/rooted"), b"3"),
    )  # fmt: skip
    unpacker = Unpacker(folder, "b", said.append, Progress())
    for at in range(0, len(data), 777):
        await unpacker.feed(data[at : at + 777])
    await unpacker.end()
    assert len(said) == 4, said
    assert sorted(path.name for path in (folder / "b").iterdir()) == ["good", "hard", "rooted"]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


async def test_a_stream_that_is_cut_or_no_tar(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 5000)
    for data in ((await packed(tmp_path / "f", "f"))[:3000], os.urandom(2000)):
        unpacker = Unpacker(tmp_path, "g", lambda _: None, Progress())
        await unpacker.feed(data)
        with pytest.raises(click.ClickException):
            await unpacker.end()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cp", "a", "b"], "only one, is in a Task"),
        (["cp", "t:/a", "u:/b"], "only one, is in a Task"),
        (["cp", "t:", "b"], "lacks a path"),
        (["cp", "t:/", "/tmp"], "no name of its own"),
        (["cp", "/nonexistent/x", "t:/b"], "is not here"),
        (["cp", "t:/x", "/nonexistent/x/y"], "is no directory here"),
        (["logs", "a", "-l", "b=c"], "names of Tasks, or -l"),
        (["logs", "a", "-p", "--attempt", "2"], "exclude each other"),
    ],
)
def test_usage(arguments: list[str], words: str) -> None:
    from click.testing import CliRunner

    from iris_operator.cli.main import main

    found = CliRunner().invoke(main, arguments)
    assert found.exit_code in (1, 2) and words in found.output


@pytest.mark.parametrize("size", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40 * 3, "3.0 TiB")])
def test_sizes(size: tuple[int, str]) -> None:
    assert size_text(size[0]) == size[1]


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


TASK_WITH_PORTS = {"ports": [{"name": "http", "port": 31000}, {"name": "dns", "port": 53, "protocol": "UDP"}]}


@pytest.mark.parametrize(
    ("text", "pair"),
    [("80", (80, 80)), ("9000:80", (9000, 80)), (":http", (0, 31000)), ("http", (31000, 31000)), ("0:80", (0, 80))],
)
async def test_ports_by_number_and_name(gateway: Gateway, text: str, pair: tuple[int, int]) -> None:
    await gateway.task("t", **TASK_WITH_PORTS)
    task = await get_task(gateway.cli, "t")
    assert port_forward.pair_of(text, task) == port_forward.Pair(*pair)


@pytest.mark.parametrize("text", ["", "0", "65536", "dns", "x:80", "80:x", "-1:80", "1:2:3", "70000:80"])
async def test_ports_that_are_none(gateway: Gateway, text: str) -> None:
    await gateway.task("t", **TASK_WITH_PORTS)
    task = await get_task(gateway.cli, "t")
    with pytest.raises(click.UsageError):
        port_forward.pair_of(text, task)


async def test_a_forwarded_connection(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through both ends: the person's and the Task's are unix sockets here."""
    await run_task(gateway)

    async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"BYE")
        writer.close()

    async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert (host, port) == ("127.0.0.1", 80)
        return await asyncio.open_unix_connection(tmp_path / "task")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    carrier = port_forward.Carrier(gateway.cli, "t", 80)
    there = await asyncio.start_unix_server(upper, tmp_path / "task")
    here = await asyncio.start_unix_server(carrier.carry, tmp_path / "here")
    async with there, here:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "here")
        text = b"words " * 200_000

        async def send() -> None:
            writer.write(text)
            writer.write_eof()
            await writer.drain()

        _, heard = await asyncio.gather(send(), reader.read())
        assert heard == text.upper() + b"BYE"
        writer.close()


async def test_a_port_on_which_nobody_listens_is_said(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_task(gateway)

    async def nobody(host: str, port: int) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(asyncio, "open_connection", nobody)
    async with await asyncio.start_unix_server(port_forward.Carrier(gateway.cli, "t", 80).carry, tmp_path / "here"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "here")
        assert await reader.read() == b""
        writer.close()
    assert "port 80: " in capsys.readouterr().err
