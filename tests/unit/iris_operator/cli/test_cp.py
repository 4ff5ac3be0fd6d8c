"""iris cp: there and back, with tar or without, and nothing lands outside."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import click
import pytest

from iris_operator.cli import cp
from iris_operator.cli.transfer import Progress, Unpacker, pack
from iris_runtimes.execution import ExecRequest
from iris_runtimes.fake_session import FakeSession
from tests.unit.iris_operator.agent.streams.kit import Gateway
from tests.unit.iris_operator.cli.person import HERE, run_task


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
