from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from iris_runtimes.containerd.fifos import InputPipe, OutputPipe


async def test_no_writer_yet_is_no_end(tmp_path: Path) -> None:
    pipe = OutputPipe(tmp_path / "out")
    reading = asyncio.create_task(pipe.read())
    await asyncio.sleep(0.02)
    assert not reading.done()
    writer = os.open(tmp_path / "out", os.O_WRONLY)
    os.write(writer, b"hello")
    assert await reading == b"hello"
    second = asyncio.create_task(pipe.read())
    await asyncio.sleep(0.02)
    assert not second.done()
    os.close(writer)
    assert await second == b""
    pipe.close()


async def test_closing_ends_a_read(tmp_path: Path) -> None:
    pipe = OutputPipe(tmp_path / "out")
    reading = asyncio.create_task(pipe.read())
    await asyncio.sleep(0)
    pipe.close()
    pipe.close()
    assert await reading == b""
    assert await pipe.read() == b""


async def test_a_cancelled_read_can_be_made_again(tmp_path: Path) -> None:
    pipe = OutputPipe(tmp_path / "out")
    reading = asyncio.create_task(pipe.read())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    writer = os.open(tmp_path / "out", os.O_WRONLY)
    os.write(writer, b"again")
    assert await pipe.read() == b"again"
    os.close(writer)
    pipe.close()


async def test_writing_waits_for_room(tmp_path: Path) -> None:
    pipe = InputPipe(tmp_path / "in")
    reader = os.open(tmp_path / "in", os.O_RDONLY | os.O_NONBLOCK)
    pipe.reader_has_come()
    writing = asyncio.create_task(pipe.write(b"x" * 300_000))
    await asyncio.sleep(0.02)
    assert not writing.done()
    taken = 0
    while taken < 300_000:
        with contextlib.suppress(BlockingIOError):
            taken += len(os.read(reader, 2**16))
        await asyncio.sleep(0)
    await writing
    pipe.close()
    assert os.read(reader, 10) == b""
    os.close(reader)


async def test_what_nobody_reads_is_dropped(tmp_path: Path) -> None:
    pipe = InputPipe(tmp_path / "in")
    pipe.reader_has_come()
    await pipe.write(b"lost")
    await pipe.write(b"lost too")
    pipe.close()


async def test_closing_ends_a_write(tmp_path: Path) -> None:
    pipe = InputPipe(tmp_path / "in")
    writing = asyncio.create_task(pipe.write(b"x" * 300_000))
    await asyncio.sleep(0.01)
    pipe.close()
    await writing
