"""Where a Python Task spends its time: py-spy, run inside the Task's sandbox, for the agent itself sees no Task's process.

The worker Pod has neither the node's pid namespace nor any capability. The program is static: any image will do that has
a shell. It runs as the Task's own user, so the kernel lets it look unless kernel.yama.ptrace_scope is 1 or more; then the
Task needs the capability SYS_PTRACE. It is gone when it has ended.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import aclosing
from pathlib import Path

from aiohttp import web

from iris_operator.agent.streams.source import TASK, StreamSource, flag, number, refusal, running_sandbox
from iris_runtimes.errors import CommandNotFound, RuntimeFault
from iris_runtimes.execution import ExecRequest, ExecSession, Stream

PROGRAM = "py-spy"
MOST_SECONDS = 45  # the API server ends a call after a minute, and the program must get there first

_STARTS_SECONDS = 30.0
_PIECE = 256 * 1024
# Tasks with a set-up have a busybox of the agent's, whatever their image is.
_SHELLS = ("", "/run/iris/bin/busybox")
# $0 is the busybox, or empty.
_SCRIPT = """\
d=$($0 mktemp -d "${TMPDIR:-/tmp}/iris-profile-XXXXXX") || exit 96
trap '$0 rm -rf "$d"' EXIT
$0 cat > "$d/py-spy" && $0 chmod 700 "$d/py-spy" || exit 96
"$d/py-spy" "$@" < /dev/null
"""
_NO_ROOM = 96
_SVG = b"<?xml"
_NOT_ALLOWED = ("Permission Denied", "Permission denied", "Operation not permitted", "EPERM")


def add_profile(app: web.Application, source: StreamSource, program: Path | None = None) -> None:
    """POST .../profile?kind=cpu&seconds=&threads=&idle="""

    async def profile(request: web.Request) -> web.Response:
        kind, seconds = request.query.get("kind", "cpu"), number(request, "seconds", 10, 1, MOST_SECONDS)
        if kind != "cpu":
            raise refusal(400, f"there is no profile of {kind!r}: cpu is the only kind")
        sandbox = running_sandbox(source, request)
        binary = program or _program()
        words = ["record", "--pid", "1", "--subprocesses", "--duration", str(seconds), "--output", "/dev/stdout"]
        words += [f"--{name}" for name in ("threads", "idle") if flag(request, name)]
        session = await _begin(source, sandbox.id, words)
        try:
            async with asyncio.timeout(seconds + _STARTS_SECONDS):
                picture = await _run(session, binary)
        except TimeoutError:
            raise refusal(503, "the profile did not end in time: the node is very busy") from None
        except RuntimeFault as fault:
            raise refusal(409, str(fault)) from fault
        finally:
            await asyncio.shield(session.close())
        return web.Response(body=picture, content_type="image/svg+xml")

    app.router.add_post(f"{TASK}/profile", profile)


async def _begin(source: StreamSource, sandbox_id: str, words: list[str]) -> ExecSession:
    for busybox in _SHELLS:
        command = [*([busybox] if busybox else []), "sh", "-c", _SCRIPT, busybox, *words]
        try:
            return await source.runtime.execute(sandbox_id, ExecRequest(command, stdin=True))
        except CommandNotFound:
            continue
        except RuntimeFault as fault:
            raise refusal(409, str(fault)) from fault
    raise refusal(409, "the Task's image has no shell (sh), which a profile needs")


def _program() -> Path:
    found = shutil.which(PROGRAM, path=f"{os.environ.get('PATH', os.defpath)}:/usr/local/bin")
    if found is None:
        raise refusal(503, f"this node's agent has no {PROGRAM}: it is not of the image that Iris ships")
    return Path(found)


async def _run(session: ExecSession, binary: Path) -> bytes:
    """The picture. Refuses, with what the profiler said, when there is none."""
    sending = asyncio.create_task(_send(session, binary))
    try:
        out, words = bytearray(), bytearray()
        async with aclosing(session.output()) as pieces:
            async for piece in pieces:
                (out if piece.stream is Stream.STDOUT else words).extend(piece.data)
        code = await session.wait()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    begin = out.find(_SVG)
    if code == 0 and begin >= 0:
        return bytes(out[begin:])
    raise refusal(409, why_none(code, words.decode(errors="replace")))


async def _send(session: ExecSession, binary: Path) -> None:
    with await asyncio.to_thread(binary.open, "rb") as file:
        while data := await asyncio.to_thread(file.read, _PIECE):
            await session.write(data)
    await session.end_input()


def why_none(code: int, words: str) -> str:
    """What a person can do about a profile that failed. Pure."""
    if "No python processes" in words:
        return "no Python process runs in the Task"
    if any(each in words for each in _NOT_ALLOWED):
        return (
            "the node's kernel does not let a process look at another (kernel.yama.ptrace_scope): give the Task "
            "securityContext.capabilities.add: [SYS_PTRACE]"
        )
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if code == _NO_ROOM:
        return f"the profiler can't be put into the Task's /tmp: {lines[-1] if lines else 'no words'}"
    said = next((line for line in lines if line.startswith("Error")), lines[-1] if lines else "no words")
    return f"the profiler ended with {code}: {said}"
