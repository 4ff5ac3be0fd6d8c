"""Images on the node: shared layers fetched once, lists, removal, and room on the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from iris_devcluster.coreweave.testing.api_server import free_ports
from iris_devcluster.images.tree import Entry
from iris_devcluster.registry import hosts_toml
from iris_runtimes.containerd import ContainerdRuntime
from iris_runtimes.errors import ImageInUse, ImageNotFound
from iris_runtimes.image_gc import DiskUse, Watermarks, collect_images
from iris_runtimes.protocol import SandboxSpec
from tests.contracts.runtime import ended
from tests.e2e.runtimes.blob_counter import BlobCounter, counting
from tests.e2e.runtimes.conftest import IMAGE
from tests.e2e.runtimes.private_containerd import PrivateContainerd
from tests.e2e.runtimes.test_pull import Registries, puller, registries

__all__ = ["puller", "registries"]  # fixtures

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

MIB = 2**20
SpecMaker = Callable[..., SandboxSpec]


@pytest_asyncio.fixture(loop_scope="session")
async def counter(registries: Registries) -> AsyncIterator[BlobCounter]:
    """open.test again, as counted.test, with its blobs counted."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    folder = registries.hosts_dir / "counted.test"
    folder.mkdir(exist_ok=True)
    (folder / "hosts.toml").write_text(hosts_toml(address))
    async with counting(registries.address, address) as one:
        yield one


async def test_shared_layers_are_fetched_once(
    puller: ContainerdRuntime, registries: Registries, counter: BlobCounter
) -> None:
    shared = [Entry("shared", os.urandom(2 * MIB))]
    names = [f"iris/sharing:{number}" for number in range(4)]
    for name in names:
        registries.pusher.layers(name, shared, [Entry(f"own-{name[-1]}", os.urandom(MIB))])
    counter.delay_seconds = 0.5  # so that all of them want the shared layer at one time
    await asyncio.gather(*(puller.pull(f"counted.test/{name}") for name in names))
    layers = {digest: count for digest, count in counter.fetched.items() if digest in registries.pusher.layer_digests}
    assert len(layers) == 5
    assert set(layers.values()) == {1}


async def test_a_pulled_layer_is_not_fetched_again(
    puller: ContainerdRuntime, registries: Registries, counter: BlobCounter
) -> None:
    below = [Entry("below", os.urandom(MIB))]
    registries.pusher.layers("iris/stack:1", below)
    registries.pusher.layers("iris/stack:2", below, [Entry("above", os.urandom(MIB))])
    await puller.pull("counted.test/iris/stack:1")
    fetched = counter.fetched.copy()
    await puller.pull("counted.test/iris/stack:2")
    assert all(count == 1 for count in counter.fetched.values())
    assert len(counter.fetched) == len(fetched) + 2  # the layer above and the configuration


async def test_present_and_listed(puller: ContainerdRuntime, registries: Registries) -> None:
    registries.pusher.random("iris/listed:1", 3 * MIB)
    name = "open.test/iris/listed:1"
    assert await puller.present(name) is None
    before = datetime.now(UTC)
    image = await puller.pull(name)
    assert await puller.present(name) == image
    found = next(one for one in await puller.images() if one.reference == name)
    assert (found.digest, found.in_use) == (image.digest, False)
    assert 6 * MIB <= found.size_bytes < 7 * MIB  # packed and unpacked
    assert found.last_used >= before


async def test_removal_frees_the_disk(
    containerd: PrivateContainerd, puller: ContainerdRuntime, registries: Registries
) -> None:
    registries.pusher.random("iris/gone:1", 3 * MIB)
    name = "open.test/iris/gone:1"
    digest = (await puller.pull(name)).digest
    snapshots = len(containerd.call("snapshots", "ls").splitlines())
    await puller.remove_image(name)
    assert await puller.present(name) is None
    assert digest not in containerd.call("content", "ls", "-q")
    assert len(containerd.call("snapshots", "ls").splitlines()) == snapshots - 1
    with pytest.raises(ImageNotFound):
        await puller.pull(name, "Never")
    assert (await puller.pull(name)).digest == digest


async def test_what_runs_is_not_removed(
    puller: ContainerdRuntime, registries: Registries, make_spec: SpecMaker
) -> None:
    registries.pusher.busybox("iris/held:1", [Entry("file", b"held")])
    spec = make_spec("holds", ["sleep", "1000"], image="open.test/iris/held:1")
    await puller.pull(spec.image)
    await puller.start(spec)
    with pytest.raises(ImageInUse):
        await puller.remove_image(spec.image)
    await puller.remove(spec.id)
    await puller.remove_image(spec.image)
    assert await puller.present(spec.image) is None


async def test_what_is_being_started_is_not_removed(
    puller: ContainerdRuntime, registries: Registries, make_spec: SpecMaker
) -> None:
    registries.pusher.busybox("iris/raced:1", [Entry("file", b"raced")])
    kept = removed = 0
    for number in range(8):
        spec = make_spec(f"race{number}", ["true"], image="open.test/iris/raced:1")
        await puller.pull(spec.image)
        starting = asyncio.create_task(puller.start(spec))
        await asyncio.sleep(0.004 * number if number % 2 else 0)
        try:
            await puller.remove_image(spec.image)
            removed += 1
        except ImageInUse:
            kept += 1
        try:
            await starting
        except ImageNotFound:
            continue  # the removal was first: said at once, and a pull brings it back
        assert (await ended(puller, spec.id)).exit_code == 0
        await puller.remove(spec.id)
    assert kept + removed == 8
    assert kept


async def test_last_use_outlives_the_agent(
    containerd: PrivateContainerd, puller: ContainerdRuntime, registries: Registries
) -> None:
    registries.pusher.random("iris/remembered:1", 1000)
    name = "open.test/iris/remembered:1"
    await puller.pull(name)
    told = next(one.last_used for one in await puller.images() if one.reference == name)
    other = ContainerdRuntime(str(containerd.socket), containerd.namespace)
    try:
        again = next(one.last_used for one in await other.images() if one.reference == name)
    finally:
        await other.close()
    assert abs(again - told) < timedelta(seconds=1)


async def test_room_is_made_oldest_first(
    puller: ContainerdRuntime, registries: Registries, make_spec: SpecMaker, containerd: PrivateContainerd
) -> None:
    names = [f"open.test/iris/room:{number}" for number in range(4)]
    for name in names:
        registries.pusher.random(name.removeprefix("open.test/"), 4 * MIB)
        await puller.pull(name)
    await puller.pull(names[0])  # used again: now the youngest
    for other in await puller.images():
        if other.reference not in (*names, IMAGE):
            await puller.remove_image(other.reference)
    spec = make_spec("stands", ["sleep", "1000"])
    await puller.start(spec)
    content = containerd.folder / "root"

    def measure() -> DiskUse:
        """A disk that is full with what containerd has on it now."""
        used = sum(one.lstat().st_size for one in content.rglob("*") if one.is_file() and not one.is_symlink())
        return DiskUse(full, used)

    full = 1
    full = measure().used_bytes
    now = datetime.now(UTC) + timedelta(minutes=5)
    low = 100 * (full - 10 * MIB) / full
    done = await collect_images(puller, measure, Watermarks(low, low), {names[2]}, now)
    assert [one.reference for one in done.removed] == [names[1], names[3]]  # 2 is to be started; 0 was not needed
    assert done.enough
    assert done.freed_bytes >= 10 * MIB
    assert {one.reference: one.reason for one in done.kept} == {
        names[2]: "it is about to be started from",
        IMAGE: "a sandbox stands on it",
    }
    again = await collect_images(puller, measure, Watermarks(100, 0), (), now)
    assert (again.removed, again.enough) == ((), True)
