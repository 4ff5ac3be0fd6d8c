"""etcd and kube-apiserver by themselves, on loopback: real validation, no nodes, ready in seconds."""

from __future__ import annotations

import random
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from iris_devcluster.binaries.locate import binaries_folder
from iris_devcluster.coreweave.kube import Connection
from iris_devcluster.errors import DevclusterError
from iris_devcluster.pki import Pki

_TOKEN = "of-the-test"
_READY_SECONDS = 60
_FIRST_PORT = 15000


@contextmanager
def api_server(folder: Path, authorization: str = "AlwaysAllow") -> Iterator[Connection]:
    """Runs in `folder` for the time of the block; whoever holds the Connection is cluster administrator.

    `authorization`: the modes, such as RBAC.
    """
    binaries = binaries_folder()
    pki = Pki(folder / "pki")
    pki.prepare()
    (folder / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n")
    client_port, peer_port, port = free_ports(3)
    url = f"https://127.0.0.1:{port}"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it signs its own certificate
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        for argv in (
            _etcd(binaries, folder, client_port, peer_port),
            _server(binaries, folder, pki, client_port, port, authorization),
        ):
            process = subprocess.Popen(argv, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        _wait_ready(f"{url}/readyz", context, folder / "log")
        yield Connection(url, context, _TOKEN)


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on just now, each another.

    None of those that the kernel gives to whoever asks for any: such a one may be taken before it is used.
    """
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    dice = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            with suppress(OSError):
                one.bind(("127.0.0.1", dice.randrange(_FIRST_PORT, first_given)))
                found.append(one.getsockname()[1])
    return found


def _etcd(binaries: Path, folder: Path, client_port: int, peer_port: int) -> list[str]:
    return [
        str(binaries / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{client_port}",
        f"--advertise-client-urls=http://127.0.0.1:{client_port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def _server(binaries: Path, folder: Path, pki: Pki, etcd_port: int, port: int, modes: str) -> list[str]:
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--authorization-mode={modes}",
        "--service-account-issuer=https://test",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--profiling=false",
    ]


def _wait_ready(url: str, context: ssl.SSLContext, log: Path) -> None:
    end = time.monotonic() + _READY_SECONDS
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {_TOKEN}"})
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, context=context, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise DevclusterError(f"the API server does not come up: {log.read_text(errors='replace')[-2000:]}")
