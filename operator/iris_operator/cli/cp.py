"""`iris cp`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath

import click

from iris_operator.api.streams import Channel
from iris_operator.cli.session import Session, Target, run_async, session, target_options
from iris_operator.cli.task_exec import ExecError, Request, execute, no_task, output_of
from iris_operator.cli.transfer import Progress, Unpacker, checked_local, pack
from iris_operator.ports.errors import ApiError

# Tasks with a set-up have a busybox of the agent's, whatever their image is.
_TARS = (("tar",), ("/run/iris/bin/busybox", "tar"))
_WORDS = 2000


@click.command()
@click.argument("source")
@click.argument("target")
@target_options
def cp(source: str, target: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Copy files and directories into a running Task, or out of it.

    One of the two is TASK:PATH; a relative PATH begins in the Task's working directory. Into a directory that exists the
    copy keeps its name. It goes through tar, which the Task's image must have.

    \b
      iris cp train.py hello:/work/
      iris cp hello:/work/out ./results
    """
    there, here = _parts(source), _parts(target)
    if (there is None) == (here is None):
        raise click.UsageError("one of the two, and only one, is in a Task: TASK:PATH")
    where = Target(kubeconfig, context, namespace)
    if there is not None:
        name, path = there
        inside, folder, called = _target_of(path, Path(target))
        run_async(_download(name, inside, folder, called, where))
    elif here is not None:
        run_async(_upload(checked_local(source), *here, where))


def _parts(text: str) -> tuple[str, str] | None:
    """Task and path; None for a local path, also for one with a colon that begins with . or /."""
    name, colon, path = text.partition(":")
    if not colon or text.startswith((".", "/")):
        return None
    if not name or not path:
        raise click.UsageError(f"{text} lacks a {'path' if name else 'Task'}: TASK:PATH")
    return name.removeprefix("task/"), path


def _target_of(path: str, target: Path) -> tuple[PurePosixPath, Path, str]:
    """What to copy out, and the folder and the name it gets here."""
    inside = PurePosixPath(path)
    if not inside.name or inside.name == "..":
        raise click.UsageError(f"{path} has no name of its own: copy a file or directory by its name")
    folder, called = (target, inside.name) if target.is_dir() else (target.parent, target.name)
    if not folder.is_dir():
        raise click.ClickException(f"{folder} is no directory here")
    return inside, folder, called


async def _upload(source: Path, name: str, path: str, where: Target) -> None:
    async with session(where) as found:
        try:
            folder = path.endswith("/") or await _is_folder(found, name, path)
            place = PurePosixPath(path, source.name) if folder else PurePosixPath(path)
            heard = _Heard()
            for tar in _TARS:
                progress = Progress()
                request = Request((*tar, "-xof", "-", "-C", str(place.parent)), pack(source, place.name, progress))
                try:
                    return heard.judge(await execute(found, name, request, heard.take))
                except ExecError as error:
                    heard.missing(error)
                finally:
                    progress.end()
            raise _no_tar(name)
        except ApiError as error:
            raise no_task(error, name, found.namespace) from error


async def _download(name: str, inside: PurePosixPath, folder: Path, called: str, where: Target) -> None:
    async with session(where) as found:
        try:
            for tar in _TARS:
                progress = Progress()
                unpacker = Unpacker(folder, called, _say, progress)
                heard = _Heard(unpacker.feed)
                request = Request((*tar, "-cf", "-", "-C", str(inside.parent), inside.name))
                try:
                    heard.judge(await execute(found, name, request, heard.take))
                    return await unpacker.end()
                except ExecError as error:
                    heard.missing(error)
                finally:
                    with contextlib.suppress(click.ClickException):  # told already, or what broke it is
                        await asyncio.shield(unpacker.end())
                    progress.end()
            raise _no_tar(name)
        except ApiError as error:
            raise no_task(error, name, found.namespace) from error


async def _is_folder(found: Session, name: str, path: str) -> bool:
    try:
        return (await output_of(found, name, ("test", "-d", path)))[0] == 0
    except ExecError as error:
        if error.no_such_command:
            return False
        raise


class _Heard:
    """What tar says: its words are for the person, its bytes for whoever takes them."""

    def __init__(self, feed: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self._feed = feed
        self._words = b""

    async def take(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDERR:
            self._words = (self._words + data)[-_WORDS:]
        elif self._feed is not None:
            await self._feed(data)

    def judge(self, code: int) -> None:
        words = self._words.decode(errors="replace").strip()
        if code != 0:
            raise click.ClickException(f"tar in the Task ended with {code}: {' '.join(words.split()) or 'no words'}")
        if words:
            _say(words)

    def missing(self, error: ExecError) -> None:
        """Goes on when it is only that there is no such tar."""
        if not error.no_such_command:
            raise error


def _no_tar(name: str) -> click.ClickException:
    return click.ClickException(
        f"the image of Task {name} has no tar, which cp needs. A single file goes in without: "
        f"iris exec {name} -i -- sh -c 'cat > FILE' < FILE"
    )


def _say(line: str) -> None:
    click.echo(line, err=True)
