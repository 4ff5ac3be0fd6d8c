"""The local registry, as a real process on loopback."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from iris_devcluster import command, processes
from iris_devcluster.coreweave.testing.api_server import free_ports
from iris_devcluster.errors import CommandFailedError, DevclusterError
from iris_devcluster.images.build import Built
from iris_devcluster.images.oci import Config, Layer, assemble
from iris_devcluster.images.programs import program
from iris_devcluster.images.publish import push
from iris_devcluster.images.store import Store
from iris_devcluster.images.tree import Entry, write_tar
from iris_devcluster.registry import Registry, hosts_toml

pytestmark = pytest.mark.cluster

Make = Callable[..., Registry]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Registries on free ports that share one storage; all are stopped at the end."""
    made: list[Registry] = []

    def _make(address: str = "", auth: tuple[str, str] | None = None) -> Registry:
        address = address or f"127.0.0.1:{free_ports(1)[0]}"
        made.append(Registry(address, tmp_path / "root", auth=auth, environment={"MARK": "test"}))
        return made[-1]

    yield _make
    for each in made:
        each.stop()


@pytest.fixture
def built(tmp_path: Path) -> Built:
    write_tar(tmp_path / "layer", [Entry("hello", b"hello")])
    return Built("task", assemble([Layer.of(tmp_path / "layer")], Config(cmd=("/hello",))), "1.0")


def test_is_started_once_and_found_by_whoever_asks(make: Make) -> None:
    registry = make()
    assert not registry.ready()
    registry.start()
    pid = registry.pid()
    other = make(registry.address)
    other.start()
    assert (other.pid(), other.ready()) == (pid, True)
    assert processes.environment(pid or 0)["MARK"] == "test"
    other.stop()
    assert (registry.pid(), registry.ready()) == (None, False)
    registry.stop()


def test_is_started_again_after_a_kill(make: Make) -> None:
    registry = make()
    registry.start()
    first = registry.pid() or 0
    os.kill(first, signal.SIGKILL)
    assert not processes.wait_gone([first], 5)
    assert registry.pid() is None
    registry.start()
    assert registry.pid() not in (None, first)


def test_a_stranger_with_its_old_id_is_left_alone(make: Make, tmp_path: Path) -> None:
    registry = make()
    folder = registry.log.parent
    folder.mkdir(parents=True)
    (folder / "pid").write_text(str(os.getpid()))
    assert registry.pid() is None
    registry.stop()  # does not end this test


def test_keeps_what_was_pushed_over_a_restart(make: Make, built: Built, tmp_path: Path) -> None:
    registry = make()
    registry.start()
    first = push(built, registry.address, insecure=True, store=Store(tmp_path / "store"))
    registry.stop()
    registry.start()
    for tag in built.tags:
        assert _digest(f"{registry.address}/iris/task:{tag}") == built.image.digest
    assert first == f"{registry.address}/iris/task:{built.image.tag}"


def test_clusters_of_one_user_push_at_once(make: Make, built: Built, tmp_path: Path) -> None:
    registries, store = [make(), make()], Store(tmp_path / "store")
    for registry in registries:
        registry.start()
    with ThreadPoolExecutor() as pool:
        pushes = [pool.submit(push, built, each.address, (), True, store) for each in registries * 4]
    assert {pushed.result().rpartition("/")[2] for pushed in pushes} == {f"task:{built.image.tag}"}
    assert not list((store.root / "scratch").iterdir())


def test_with_a_password_wants_it_and_shares_the_storage(make: Make, built: Built, tmp_path: Path) -> None:
    plain, closed = make(), make(auth=("puller", "right:word"))
    plain.start()
    closed.start()
    push(built, plain.address, insecure=True, store=Store(tmp_path / "store"))
    with pytest.raises(CommandFailedError, match="UNAUTHORIZED"):
        _digest(f"{closed.address}/iris/task:dev")
    assert closed.status(("puller", "right:word")) == 200
    assert closed.status(("puller", "wrong")) == 401


def test_a_changed_password_takes_effect(make: Make) -> None:
    registry = make(auth=("puller", "old"))
    registry.start()
    changed = make(registry.address, auth=("puller", "new"))
    changed.start()
    assert (changed.status(("puller", "new")), changed.status(("puller", "old"))) == (200, 401)


def test_says_that_its_place_is_taken(make: Make) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        with pytest.raises(DevclusterError, match="something else listens on 127"):
            make(f"127.0.0.1:{stranger.getsockname()[1]}").start()


def test_says_why_it_does_not_start(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registry").write_text("#!/bin/sh\necho out of luck >&2\nexit 1\n")
    (tmp_path / "registry").chmod(0o755)
    monkeypatch.setenv("IRIS_BIN_DIR", str(tmp_path))
    registry = make()
    with pytest.raises(DevclusterError, match=r"did not start; .*registry\.log ends with:\nout of luck"):
        registry.start()
    assert registry.pid() is None


def test_nodes_are_pointed_at_it_over_plain_http(make: Make, tmp_path: Path) -> None:
    registry = make("10.1.0.1:5001")
    registry.announce(tmp_path / "certs.d", "private.iris:5001")
    written = (tmp_path / "certs.d/private.iris:5001/hosts.toml").read_text()
    assert '[host."http://10.1.0.1:5001"]' in written
    assert written == hosts_toml("10.1.0.1:5001")


def _digest(reference: str) -> str:
    return command.run([str(program("crane")), "digest", "--insecure", reference]).strip()
