"""Pulls through containerd's transfer service, from a real registry on loopback, with and without a password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from iris_devcluster.coreweave.testing.api_server import free_ports
from iris_devcluster.images.oci import Config
from iris_devcluster.images.tree import Entry
from iris_devcluster.registry import Registry, hosts_toml
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import ImageInvalid, ImageNotFound, ImagePullFailed, ImageUnauthorized, InvalidSpec
from iris_runtimes.protocol import Credentials, PullProgress, SandboxSpec
from tests.contracts.runtime import ended
from tests.e2e.runtimes.private_containerd import PrivateContainerd
from tests.e2e.runtimes.registry_images import Pusher

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

RIGHT = Credentials("iris", "open-sesame")
WRONG = Credentials("iris", "guess")
SIZE = 12 * 2**20
PASSWD = b"root:x:0:0::/:/bin/sh\nworker:x:1000:1001::/:/bin/sh\n"
GROUP = b"root:x:0:\nstaff:x:1001:\nvideo:x:44:worker\n"


@dataclass(frozen=True)
class Registries:
    """One storage behind two hosts: open.test asks for nothing, locked.test for a password; nobody answers at gone.test."""

    hosts_dir: Path
    pusher: Pusher
    address: str


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registries]:
    root = tmp_path_factory.mktemp("registry")
    ports = free_ports(3)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    open_one = Registry(addresses[0], root / "data")
    locked = Registry(addresses[1], root / "data", auth=(RIGHT.username, RIGHT.password))
    for host, address in zip(("open.test", "locked.test", "gone.test"), addresses, strict=True):
        (root / "certs.d" / host).mkdir(parents=True)
        (root / "certs.d" / host / "hosts.toml").write_text(hosts_toml(address))
    try:
        open_one.start()
        locked.start()
        pusher = Pusher(addresses[0], root)
        pusher.busybox("iris/task:1")
        yield Registries(root / "certs.d", pusher, addresses[0])
    finally:
        open_one.stop()
        locked.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def puller(
    containerd: PrivateContainerd, registries: Registries, tmp_path: Path
) -> AsyncIterator[ContainerdRuntime]:
    driver = ContainerdRuntime(
        str(containerd.socket),
        containerd.namespace,
        hosts_dir=str(registries.hosts_dir),
        exec_folder=tmp_path / "exec",
    )
    yield driver
    for sandbox in await driver.list():
        await driver.remove(sandbox.id)
    await driver.close()


async def test_pulled_without_a_password_and_run(
    puller: ContainerdRuntime, make_spec: Callable[..., SandboxSpec]
) -> None:
    image = await puller.pull("open.test/iris/task:1")
    assert image.digest.startswith("sha256:")
    spec = make_spec("pulled", ["true"], image="open.test/iris/task:1")
    await puller.start(spec)
    assert (await ended(puller, spec.id)).exit_code == 0


async def test_progress_grows_to_the_whole(puller: ContainerdRuntime, registries: Registries) -> None:
    registries.pusher.random("iris/noise:1", SIZE)
    seen: list[PullProgress] = []
    await puller.pull("open.test/iris/noise:1", on_progress=seen.append)
    done = [one.done_bytes for one in seen]
    assert done == sorted(done)
    assert seen[-1].done_bytes == seen[-1].total_bytes >= SIZE


async def test_a_digest_is_a_reference(puller: ContainerdRuntime) -> None:
    image = await puller.pull("open.test/iris/task:1")
    again = await puller.pull(f"open.test/iris/task@{image.digest}")
    assert again.digest == image.digest


@pytest.mark.parametrize("credentials", [[RIGHT], [WRONG, RIGHT]], ids=["right", "right after wrong"])
async def test_pulled_with_the_password(
    puller: ContainerdRuntime, registries: Registries, credentials: list[Credentials]
) -> None:
    name = f"iris/locked:{len(credentials)}"
    registries.pusher.random(name, 1000)
    assert (await puller.pull(f"locked.test/{name}", "Always", credentials)).digest


@pytest.mark.parametrize(
    ("credentials", "words"),
    [([], "without a pull secret"), ([WRONG], "with the pull secret given")],
    ids=["none", "wrong"],
)
async def test_refused(puller: ContainerdRuntime, credentials: list[Credentials], words: str) -> None:
    with pytest.raises(ImageUnauthorized, match=words) as caught:
        await puller.pull("locked.test/iris/task:1", "Always", credentials)
    assert caught.value.who == "user"
    assert RIGHT.password not in str(caught.value)


@pytest.mark.parametrize("name", ["iris/task:404", "iris/none:1", f"iris/task@sha256:{'4' * 64}"])
async def test_missing(puller: ContainerdRuntime, name: str) -> None:
    with pytest.raises(ImageNotFound) as caught:
        await puller.pull(f"open.test/{name}")
    assert "\n" not in str(caught.value)


async def test_missing_behind_a_password(puller: ContainerdRuntime) -> None:
    with pytest.raises(ImageNotFound):
        await puller.pull("locked.test/iris/none:1", "Always", [RIGHT])


@pytest.mark.parametrize("name", ["open.test/UPPER/case:1", "open.test/iris/task:a b", "open.test/iris/task@sha256:12"])
async def test_no_reference(puller: ContainerdRuntime, name: str) -> None:
    with pytest.raises(ImageInvalid):
        await puller.pull(name)


async def test_for_another_architecture(puller: ContainerdRuntime, registries: Registries) -> None:
    registries.pusher.foreign("iris/foreign:1")
    with pytest.raises(ImageInvalid):
        await puller.pull("open.test/iris/foreign:1")


@pytest.mark.parametrize("host", ["gone.test", "no-such-host.invalid"])
async def test_a_registry_that_is_not_there_is_the_platforms(puller: ContainerdRuntime, host: str) -> None:
    with pytest.raises(ImagePullFailed) as caught:
        await puller.pull(f"{host}/iris/task:404")
    assert caught.value.who == "platform"


async def test_a_registry_that_says_nothing_is_given_up(containerd: PrivateContainerd, registries: Registries) -> None:
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    folder = registries.hosts_dir / "silent.test"
    folder.mkdir()
    (folder / "hosts.toml").write_text(hosts_toml(f"127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    hosts_dir = str(registries.hosts_dir)
    puller = ContainerdRuntime(
        str(containerd.socket), containerd.namespace, hosts_dir=hosts_dir, pull_stall_seconds=0.5
    )
    try:
        with pytest.raises(ImagePullFailed, match="nothing for"):
            await puller.pull("silent.test/iris/task:1")
    finally:
        await puller.close()
        for writer in held:
            writer.close()
        server.close()


async def test_a_pull_can_be_cancelled(puller: ContainerdRuntime, registries: Registries) -> None:
    registries.pusher.random("iris/noise:2", SIZE)
    pulling = asyncio.create_task(puller.pull("open.test/iris/noise:2"))
    await asyncio.sleep(0.05)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling
    assert (await puller.pull("open.test/iris/noise:2")).digest


async def test_two_pulls_of_one_image_are_one(puller: ContainerdRuntime, registries: Registries) -> None:
    registries.pusher.random("iris/noise:3", SIZE)
    first, second = await asyncio.gather(*(puller.pull("open.test/iris/noise:3") for _ in range(2)))
    assert first == second


async def test_policies(puller: ContainerdRuntime, registries: Registries) -> None:
    registries.pusher.random("iris/moving:1", 1000)
    name = "open.test/iris/moving:1"
    first = await puller.pull(name)
    registries.pusher.random("iris/moving:1", 1000)
    assert (await puller.pull(name, "IfNotPresent")).digest == first.digest
    assert (await puller.pull(name, "Never")).digest == first.digest
    assert (await puller.pull(name, "Always")).digest != first.digest


async def test_blobs_without_a_snapshot_are_unpacked(
    puller: ContainerdRuntime, registries: Registries, containerd: PrivateContainerd
) -> None:
    registries.pusher.random("iris/raw:1", 1000)
    name = "open.test/iris/raw:1"
    fetch = ["content", "fetch", "--hosts-dir", str(registries.hosts_dir), name]
    containerd.call(*fetch)
    assert containerd.call("images", "check", f"name=={name}").split()[-1] == "false"
    await puller.pull(name)
    assert containerd.call("images", "check", f"name=={name}").split()[-1] == "true"


@pytest.mark.parametrize(
    ("user", "ids"),
    [
        ("worker", "uid=1000 gid=1001 groups=44,1001"),
        ("worker:video", "uid=1000 gid=44 groups=44"),
        ("1000", "uid=1000 gid=1001 groups=44,1001"),
        ("77:88", "uid=77 gid=88 groups=88"),
    ],
)
async def test_the_images_user(
    puller: ContainerdRuntime, registries: Registries, make_spec: Callable[..., SandboxSpec], user: str, ids: str
) -> None:
    name = f"iris/user:{user.replace(':', '-')}"
    accounts = [Entry("etc/passwd", PASSWD), Entry("etc/group", GROUP)]
    registries.pusher.busybox(name, accounts, [Entry("data/file", b"above")], config=Config(user=user))
    spec = make_spec("ids", ["sh", "-c", "echo uid=$(id -u) gid=$(id -g) groups=$(id -G | tr ' ' '\\n' | sort -nu | paste -sd,)"],
                     image=f"open.test/{name}")  # fmt: skip
    await puller.pull(spec.image)
    await puller.start(spec)
    await ended(puller, spec.id)
    assert spec.log_path.read_text().strip() == ids


async def test_an_unknown_user_is_the_images_fault(
    puller: ContainerdRuntime, registries: Registries, make_spec: Callable[..., SandboxSpec]
) -> None:
    registries.pusher.busybox("iris/user:stranger", config=Config(user="stranger"))
    spec = make_spec("stranger", ["true"], image="open.test/iris/user:stranger")
    await puller.pull(spec.image)
    with pytest.raises(InvalidSpec, match="runAsUser"):
        await puller.start(spec)
    assert spec.id not in {one.id for one in await puller.list()}
