"""A container registry on this host, for the nodes of a cluster; what was pushed outlives registry and cluster.

Every node finds the one at `<host address>:5000` as registry.iris:5000, over plain http (`hosts_toml`).
"""

from __future__ import annotations

import ctypes
import fcntl
import http.client
import os
import secrets
import signal
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from iris_devcluster import processes
from iris_devcluster.binaries.locate import cache_folder
from iris_devcluster.errors import DevclusterError
from iris_devcluster.images.programs import program
from iris_devcluster.node.files import REGISTRY_NAME, hosts_toml

__all__ = ["REGISTRY_NAME", "Registry", "hosts_toml", "registry_folder"]

_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_BCRYPT_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def registry_folder() -> Path:
    """Where pushed images are kept: per user, so that a new cluster has them at once."""
    return cache_folder() / "registry"


class Registry:
    """The registry at one address; any process may start, ask or stop it. Several may share one `root`.

    `auth`: user and password that every request must bring. `environment`: added to the process's own, such as the
    cluster's mark by which `iris-devcluster down` finds it.
    """

    def __init__(
        self,
        address: str,
        root: Path,
        auth: tuple[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.address, self._root, self._auth = address, root.resolve(), auth
        self._environment = dict(environment or {})
        self._folder = self._root / "run" / address.replace(":", "_")

    @property
    def log(self) -> Path:
        return self._folder / "registry.log"

    def start(self) -> None:
        """Start it unless it runs as wanted; returns when it answers, else raises DevclusterError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            wanted = self._configuration()
            if self.pid() is not None and self._current() == wanted and self.status(self._auth) == 200:
                return
            self._end()
            if self._taken():
                raise DevclusterError(f"something else listens on {self.address} already; stop it, then try again")
            self._write(wanted)
            self._spawn()
            self._wait_ready()

    def stop(self) -> None:
        """End it; what was pushed stays. Fine when it does not run."""
        if self._folder.exists():
            with self._lock():
                self._end()

    def ready(self) -> bool:
        """Whether a registry answers at the address (asking for a password is an answer, too)."""
        return self.status() in (200, 401)

    def pid(self) -> int | None:
        """Its process, told from a stranger with a reused id by its command line; None when it does not run."""
        try:
            pid = int((self._folder / "pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self._config) in words and processes.alive(pid) else None

    def announce(self, certs_d: Path, name: str) -> None:
        """Let nodes with that containerd folder (Cluster.certs_d) pull from here as `name`, over plain http."""
        folder = certs_d / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(hosts_toml(self.address))

    # Inside

    @property
    def _config(self) -> Path:
        return self._folder / "config.yaml"

    def status(self, auth: tuple[str, str] | None = None) -> int:
        """HTTP status of the API's root, 0 when nothing answers."""
        headers = {} if auth is None else {"Authorization": f"Basic {b64encode(':'.join(auth).encode()).decode()}"}
        connection = http.client.HTTPConnection(self.address, timeout=2)
        try:
            connection.request("GET", "/v2/", headers=headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def _taken(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def _configuration(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self._root / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.address},
        }
        if self._auth is not None:
            htpasswd = {"realm": "iris", "path": str(self._folder / "htpasswd")}
            config["auth"] = {"htpasswd": htpasswd}
        return config

    def _current(self) -> object:
        try:
            return yaml.safe_load(self._config.read_text())
        except FileNotFoundError:
            return None

    def _write(self, config: Mapping[str, Any]) -> None:
        self._config.write_text(yaml.safe_dump(dict(config)))
        if self._auth is not None:
            user, password = self._auth
            path = self._folder / "htpasswd"
            path.touch(mode=0o600)
            path.write_text(f"{user}:{_bcrypt(password)}\n")

    def _spawn(self) -> None:
        argv = [str(program("registry")), "serve", str(self._config)]
        env = {**os.environ, **self._environment, "OTEL_TRACES_EXPORTER": "none"}
        with self.log.open("ab") as log:
            # A session of its own: it outlives the command that started it, and that terminal's Ctrl-C.
            child = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self._folder / "pid").write_text(str(child.pid))
        self._child = child

    def _wait_ready(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while not self.ready():
            if self._child.poll() is not None or time.monotonic() > end:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-3:]
                self._end()
                raise DevclusterError(
                    f"the registry at {self.address} did not start; {self.log} ends with:\n" + "\n".join(tail)
                )
            time.sleep(0.05)

    def _end(self) -> None:
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            if processes.wait_gone([pid], _STOP_SECONDS):
                processes.kill([pid])
                processes.wait_gone([pid], _STOP_SECONDS)
        child = getattr(self, "_child", None)
        if child is not None:
            child.wait()
        (self._folder / "pid").unlink(missing_ok=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _bcrypt(password: str) -> str:
    """The password as the registry wants it; by the system's libcrypt, for Python has no bcrypt."""
    salt = "".join(secrets.choice(_BCRYPT_ALPHABET) for _ in range(21)) + "."
    try:
        library = ctypes.CDLL("libcrypt.so.1")
    except OSError:
        raise DevclusterError("libcrypt is missing; run: apt-get install libcrypt1") from None
    library.crypt.restype = ctypes.c_char_p
    made: bytes | None = library.crypt(password.encode(), f"$2b$05${salt}".encode())
    if made is None or not made.startswith(b"$2b$"):
        raise DevclusterError("this system's libcrypt has no bcrypt, which a registry with a password needs")
    return made.decode()
