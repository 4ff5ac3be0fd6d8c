"""The docker driver: the runtimes' contract and its own ways, on a fake Engine's socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from iris_runtimes.docker import DockerRuntime
from iris_runtimes.docker.images import registry_auth
from iris_runtimes.errors import (
    ImageInUse,
    ImageNotFound,
    ImageUnauthorized,
    InvalidSpec,
    NodeFault,
    NotSupported,
    RuntimeUnavailable,
)
from iris_runtimes.protocol import CgroupParent, Credentials, PullProgress, SandboxSpec, SandboxState
from tests.contracts.runtime import RuntimeContract, ended
from tests.unit.iris_runtimes.docker.fake_engine import VERSION, FakeEngine

IMAGE = "registry.test/iris/task:1"
LOCKED = "registry.test/iris/locked:1"
DIGEST = "sha256:" + "a" * 64
SpecMaker = Callable[..., SandboxSpec]


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    pullable = {IMAGE: DIGEST, LOCKED: DIGEST}
    async with FakeEngine(tmp_path / "docker.sock", pullable=pullable).serving() as one:
        yield one


@pytest_asyncio.fixture
async def runtime(engine: FakeEngine) -> AsyncIterator[DockerRuntime]:
    driver = DockerRuntime(str(engine.socket))
    yield driver
    for sandbox in await driver.list():
        await driver.remove(sandbox.id)
    await driver.close()


@pytest.fixture
def make_spec(tmp_path: Path) -> SpecMaker:
    def make(name: str, command: list[str], image: str = IMAGE, **more: object) -> SandboxSpec:
        return SandboxSpec(
            id=f"task-{name}-1",
            image=image,
            log_path=tmp_path / name / "output.log",
            cgroup=CgroupParent(""),
            labels={"iris.dev/task-name": name},
            command=command,
            **more,  # type: ignore[arg-type]
        )

    return make


class TestDockerContract(RuntimeContract):
    image = IMAGE
    missing_image = "registry.test/iris/missing:1"


async def test_the_log_is_a_file_of_ours(runtime: DockerRuntime, make_spec: SpecMaker) -> None:
    spec = make_spec("talks", ["sh", "-c", "printf 'one\\nt\\377wo\\n'; echo three >&2; head -c 200000 /dev/zero"])
    await runtime.pull(spec.image)
    await runtime.start(spec)
    await ended(runtime, spec.id)
    written = spec.log_path.read_bytes()
    assert written.startswith(b"one\nt\xffwo\n")
    assert b"three\n" in written
    assert len(written) == 200_000 + len(b"one\nt\xffwo\nthree\n")


async def test_a_new_agent_goes_on_with_the_log(engine: FakeEngine, make_spec: SpecMaker) -> None:
    runtime = DockerRuntime(str(engine.socket))
    spec = make_spec("long", ["sh", "-c", "echo one; sleep 0.6; echo two; exit 5"])
    await runtime.pull(spec.image)
    await runtime.start(spec)
    while not spec.log_path.exists() or spec.log_path.read_text() != "one\n":
        await asyncio.sleep(0.02)
    await runtime.close()
    second = DockerRuntime(str(engine.socket))
    try:
        assert (await ended(second, spec.id)).exit_code == 5
        assert spec.log_path.read_text() == "one\ntwo\n"
        (found,) = await second.list()
        assert dict(found.labels) == {"iris.dev/task-name": "long"}
        await second.remove(spec.id)
    finally:
        await second.close()


async def test_pull_progress_and_digest(runtime: DockerRuntime) -> None:
    seen: list[PullProgress] = []
    image = await runtime.pull(IMAGE, on_progress=seen.append)
    assert image.digest == DIGEST
    assert [(one.done_bytes, one.total_bytes) for one in seen] == [(10, 100), (60, 100), (100, 100)]


async def test_policies(runtime: DockerRuntime, engine: FakeEngine) -> None:
    with pytest.raises(ImageNotFound, match="Never"):
        await runtime.pull(IMAGE, "Never")
    await runtime.pull(IMAGE)
    engine.pullable[IMAGE] = "sha256:" + "b" * 64
    assert (await runtime.pull(IMAGE)).digest == DIGEST
    assert (await runtime.pull(IMAGE, "Always")).digest == engine.pullable[IMAGE]


async def test_credentials_are_tried_in_order(runtime: DockerRuntime, engine: FakeEngine) -> None:
    right, wrong = Credentials("iris", "open"), Credentials("iris", "guess")
    engine.secret_for[LOCKED] = registry_auth(right, LOCKED)
    for given, words in (([], "without a pull secret"), ([wrong], "with the pull secret")):
        with pytest.raises(ImageUnauthorized, match=words):
            await runtime.pull(LOCKED, credentials=given)
    assert (await runtime.pull(LOCKED, credentials=[wrong, right])).digest == DIGEST


async def test_a_half_made_one_is_finished(runtime: DockerRuntime, engine: FakeEngine, make_spec: SpecMaker) -> None:
    spec = make_spec("half", ["sleep", "1000"])
    await runtime.pull(spec.image)
    await runtime.start(spec)
    made = engine.containers[spec.id]
    assert made.process is not None
    await made.process.destroy()
    made.process = None  # as if the first start had been cut off after the creation
    assert (await runtime.get(spec.id)).state is SandboxState.CREATED
    assert (await runtime.start(spec)).state is SandboxState.RUNNING


async def test_another_users_containers_are_left_alone(
    runtime: DockerRuntime, engine: FakeEngine, make_spec: SpecMaker
) -> None:
    spec = make_spec("ours", ["sleep", "1000"])
    await runtime.pull(spec.image)
    await runtime.start(spec)
    del engine.containers[spec.id].body["Labels"]["iris.dev/managed"]
    assert await runtime.list() == []


async def test_what_the_engine_has_no_word_for(runtime: DockerRuntime, make_spec: SpecMaker) -> None:
    await runtime.pull(IMAGE)
    for more in (
        {"network_namespace": "/x"},
        {"hugepage_limits_bytes": {2**21: 1}},
        {"group": 7},
        {"inside": "task-x-1"},
    ):
        with pytest.raises(NotSupported) as caught:
            await runtime.start(make_spec("no", ["true"], **more))
        assert caught.value.field == next(iter(more))
    with pytest.raises(NotSupported, match="everyone"):
        await runtime.signal("any", 15, everyone=True)


async def test_starts_that_fail(runtime: DockerRuntime, make_spec: SpecMaker, tmp_path: Path) -> None:
    with pytest.raises(ImageNotFound):
        await runtime.start(make_spec("none", ["true"]))
    await runtime.pull(IMAGE)
    with pytest.raises(InvalidSpec, match="give a command"):
        await runtime.start(make_spec("nothing", []))
    (tmp_path / "blocked").write_text("a file where the log's folder should be")
    with pytest.raises(NodeFault, match="log"):
        await runtime.start(make_spec("blocked", ["true"]))
    assert await runtime.list() == []


async def test_an_image_in_use_by_another_user(
    runtime: DockerRuntime, engine: FakeEngine, make_spec: SpecMaker
) -> None:
    await runtime.pull(IMAGE)
    spec = make_spec("foreign", ["sleep", "1000"])
    await runtime.start(spec)
    with pytest.raises(ImageInUse):
        await runtime.remove_image(IMAGE)
    await runtime.remove(spec.id)
    await runtime.remove_image(IMAGE)
    assert engine.images == {}


async def test_no_engine(tmp_path: Path) -> None:
    driver = DockerRuntime(str(tmp_path / "none.sock"))
    try:
        for call in (driver.version(), driver.list(), driver.get("x"), driver.wait("x")):
            with pytest.raises(RuntimeUnavailable):
                await call
        with pytest.raises(RuntimeUnavailable):
            async for _ in driver.events():
                pass
    finally:
        await driver.close()


async def test_it_speaks_the_engines_version(runtime: DockerRuntime, engine: FakeEngine) -> None:
    assert (await runtime.version()).name == "docker"
    await runtime.list()
    assert engine.asked == ["GET /version", "GET /version", f"GET {VERSION}/containers/json"]


async def test_words_before_the_images_own_command(
    engine: FakeEngine, runtime: DockerRuntime, make_spec: SpecMaker
) -> None:
    await runtime.pull(IMAGE)
    engine.own_command = ["sh", "-c", "exit 7"]
    made = make_spec("before", [], before=["env"])
    await runtime.start(made)
    assert engine.bodies[made.id]["Entrypoint"] == ["env", "sh", "-c", "exit 7"]
    engine.own_command = []
    with pytest.raises(InvalidSpec, match="give a command"):
        await runtime.start(make_spec("nothing", [], before=["env"]))
