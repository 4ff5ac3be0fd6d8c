"""These tests download from a server of their own, so loopback is open to them."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from iris_devcluster.binaries.catalogue import Binary, Release


@pytest.fixture(autouse=True)
def _no_sockets() -> Iterator[None]:
    enable_socket()
    socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    yield


@dataclass
class Upstream:
    """A release server: serves `files`, breaks off after `cut_after` bytes as often as `cuts` says."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path and Range header of every request."""
    cuts: int = 0
    cut_after: int = 0
    ranges: bool = True

    def release(self, path: str, content: bytes, member: str = "", sha256: str = "") -> Binary:
        """Publish `content` and describe it as a catalogue entry."""
        self.files[path] = content
        checksum = sha256 or hashlib.sha256(content).hexdigest()
        return Binary("tool", "v1.0.0", "example.test/tool", "", Release(f"{self.url}{path}", checksum, member))


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    state = Upstream("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            state.requests.append((self.path, asked))
            if self.path not in state.files:
                self.send_error(404)
                return
            content = state.files[self.path]
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and state.ranges else 0
            if asked and state.ranges and start >= len(content):
                self.send_error(416)
                return
            body = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cuts:
                state.cuts -= 1
                body = body[: state.cut_after]
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def tarball(name: str, content: bytes) -> bytes:
    """A .tar.gz with one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()
