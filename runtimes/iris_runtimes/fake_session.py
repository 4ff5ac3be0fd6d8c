"""A command in a sandbox of the fake runtime: a few words of a shell, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from iris_runtimes.execution import ExecRequest, Output, Stream


class FakeSession:
    """Satisfies execution.ExecSession.

    Knows `true`, `false`, `sleep N` (never ends), `cat`, `echo WORDS`, `stty size`, and of a shell
    `sh -c "exit N"` and `sh -c "echo WORDS $NAME >&2"`.
    """

    def __init__(self, request: ExecRequest, env: Mapping[str, str]) -> None:
        self.request = request
        self.killed = False
        self.closed = False
        self.size = (request.columns, request.rows)
        self._out: asyncio.Queue[Output | None] = asyncio.Queue()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._begin([*request.command], {**env, **dict(request.env)})

    def _begin(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        code, stream = 0, Stream.STDOUT
        if words[:2] == ["sh", "-c"]:
            words = words[2].split()
            if words[-1] == ">&2":
                words, stream = words[:-1], Stream.STDOUT if self.request.terminal else Stream.STDERR
        program, rest = words[0], words[1:]
        if program == "echo":
            self._say(stream, " ".join(env.get(word[1:], "") if word.startswith("$") else word for word in rest))
        elif program == "stty":
            self._say(stream, f"{self.request.rows} {self.request.columns}")
        elif program == "exit":
            code = int(rest[0])
        elif program == "false":
            code = 1
        if program not in ("sleep", "cat"):
            self.end(code)

    def end(self, code: int) -> None:
        """Let it end."""
        if not self._ended.done():
            self._ended.set_result(code)
            self._out.put_nowait(None)

    def _say(self, stream: Stream, text: str) -> None:
        self._out.put_nowait(Output(stream, text.encode() + b"\n"))

    async def output(self) -> AsyncGenerator[Output, None]:
        while (piece := await self._out.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        if self.request.command[0] == "cat" and self.request.stdin and not self._ended.done():
            self._out.put_nowait(Output(Stream.STDOUT, data))

    async def end_input(self) -> None:
        if self.request.command[0] == "cat":
            self.end(0)

    async def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def kill(self) -> None:
        self.killed = True
        self.end(137)

    async def close(self) -> None:
        self.closed = True
        self.end(137)
