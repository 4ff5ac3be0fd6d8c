"""Zip archives."""

from __future__ import annotations

import stat
import struct
import time
import zipfile
import zlib
from typing import BinaryIO, cast

from iris_operator.agent.inputs.unpack import Tree, invalid

_END = struct.Struct("<4s4H2LH")
_LARGEST_DIRECTORY = 64 * 2**20  # zipfile reads it whole
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others take as much memory as the archive says
_LONGEST_LINK = 4096


def unpack_zip(file: BinaryIO, tree: Tree) -> None:
    """All entries. InputFault BundleInvalid."""
    _check_directory(file)
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                _add(archive, entry, tree)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise invalid(f"is damaged, encrypted or of a kind that is not supported: {error}") from error


def _check_directory(file: BinaryIO) -> None:
    """Before zipfile reads the directory: that it is of bearable size."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size - 2**16 - 20))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise invalid("is a zip without its end")
    if tail[max(0, at - 20) :].startswith(b"PK\x06\x07") or _END.unpack_from(tail, at)[5] > _LARGEST_DIRECTORY:
        raise invalid("is a zip of more than 65535 files or 4 GiB (zip64): pack it with tar")
    file.seek(0)


def _add(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, tree: Tree) -> None:
    mode = entry.external_attr >> 16
    if entry.is_dir():
        tree.folder(entry.filename)
        return
    if entry.compress_type not in _METHODS:
        raise invalid(f"has {entry.filename!r} packed by another method than deflate")
    with archive.open(entry) as content:
        if stat.S_ISLNK(mode):
            tree.symbolic_link(entry.filename, content.read(_LONGEST_LINK).decode(errors="surrogateescape"))
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            modified = time.mktime((*entry.date_time, 0, 0, -1)) if entry.date_time[0] > 1980 else 0.0
            tree.file(entry.filename, cast(BinaryIO, content), executable=bool(mode & 0o111), modified=modified)
        else:
            raise invalid(f"has {entry.filename!r}, which is neither file nor folder nor link")
