"""The Tasks' log files on the node: <logs>/<task uid>/<attempt>/output.log, written by the shims.

Beside the attempts lies `name`: the Task's name, to ask the API for a Task that has left this node.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from iris_operator.agent import words
from iris_operator.agent.logs.bounds import first_kept
from iris_operator.agent.words import MOST_CHARACTERS

_UID = re.compile(r"^[0-9a-zA-Z][0-9a-zA-Z-]{0,62}$")
_BLOCK = 64 * 1024
_NAME = "name"


def is_uid(text: str) -> bool:
    """Whether it can be a Task's uid: so that it names a folder of ours, and no other."""
    return bool(_UID.match(text))


def stored_uids(logs_dir: Path) -> list[str]:
    """Uids that have logs here."""
    return [entry.name for entry in logs_dir.iterdir() if is_uid(entry.name)] if logs_dir.is_dir() else []


def has_logs(logs_dir: Path, uid: str) -> bool:
    """Whether anything of a Task's is there. Cheaper than a thread."""
    return os.path.lexists(f"{logs_dir}/{uid}")


def name_logs(logs_dir: Path, uid: str, name: str) -> None:
    """Note whose logs these are. OSError when the disk is full or read-only."""
    path = logs_dir / uid / _NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)


def name_of_logs(logs_dir: Path, uid: str) -> str:
    """The name noted; empty when there is none, or no logs."""
    try:
        return (logs_dir / uid / _NAME).read_text() if is_uid(uid) else ""
    except (FileNotFoundError, NotADirectoryError):
        return ""


def log_file(logs_dir: Path, uid: str, attempt: int) -> Path:
    """Where one attempt's output is."""
    return logs_dir / uid / str(attempt) / "output.log"


def drop_logs(logs_dir: Path, uid: str) -> None:
    """Delete a Task's logs; done already is success."""
    if is_uid(uid):
        shutil.rmtree(logs_dir / uid, ignore_errors=True)


def read_chunk(path: Path, offset: int, size: int) -> bytes:
    """Up to `size` bytes from `offset`; empty at the end, and when there is no file yet."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        return b""


def last_line(path: Path) -> str:
    """The last line that says something, as `words.last_line` shows it; empty without one, and without a file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * MOST_CHARACTERS))
            return words.last_line(file.read())
    except OSError:
        return ""


def line_start(path: Path, offset: int) -> int:
    """Where the line begins that `offset` is in; of a line longer than 64 KiB before it, 64 KiB before."""
    start = max(0, offset - _BLOCK)
    block = read_chunk(path, start, offset - start)
    return start + block.rfind(b"\n") + 1


def tail_offset(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin, in bytes; a last line without its newline counts."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            if lines <= 0:
                return end
            position, wanted, first = end, lines, first_kept(file.fileno())
            while position > first:
                start = max(first, position - _BLOCK)
                file.seek(start)
                block = file.read(position - start)
                # The newline that ends the file ends its last line; it begins none.
                stop = len(block) - 1 if position == end and block.endswith(b"\n") else len(block)
                while (found := block.rfind(b"\n", 0, stop)) >= 0:
                    wanted -= 1
                    if wanted == 0:
                        return start + found + 1
                    stop = found
                position = start
            return first
    except FileNotFoundError:
        return 0
