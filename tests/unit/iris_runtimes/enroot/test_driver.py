"""The enroot driver: the runtimes' contract, as far as it goes, on a stand-in of enroot's program or on a real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from iris_runtimes.enroot import EnrootRuntime
from iris_runtimes.enroot.limits import import_uri, start_words
from iris_runtimes.errors import (
    CommandNotExecutable,
    ImageInUse,
    ImageNotFound,
    ImageUnauthorized,
    NotSupported,
    RuntimeUnavailable,
)
from iris_runtimes.execution import ExecRequest
from iris_runtimes.lifecycle import run_command
from iris_runtimes.protocol import CgroupParent, Credentials, Device, Mount, Runtime, SandboxSpec, SandboxState, Tmpfs
from tests.contracts.runtime import RuntimeContract, SpecMaker, ended

IMAGE = "registry.test/iris/task:1"
LOCKED = "registry.test/iris/locked:1"
FAKE = Path(__file__).parent / "fake_enroot.py"


@pytest_asyncio.fixture
async def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EnrootRuntime]:
    monkeypatch.setenv("FAKE_ENROOT_IMAGES", f"{IMAGE} {LOCKED}")
    monkeypatch.setenv("FAKE_ENROOT_LOCKED", f"{LOCKED}=iris:open")
    driver = EnrootRuntime(str(FAKE), tmp_path / "enroot")
    yield driver
    for sandbox in await driver.list():
        await driver.remove(sandbox.id)
    await driver.close()


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., SandboxSpec]:
    def make(name: str, command: list[str], **more: object) -> SandboxSpec:
        return SandboxSpec(
            id=f"task-{name}-1",
            image=IMAGE,
            log_path=tmp_path / name / "output.log",
            cgroup=CgroupParent(""),
            labels={"iris.dev/task-name": name},
            command=command,
            **more,  # type: ignore[arg-type]
        )

    return make


class TestEnrootContract(RuntimeContract):
    missing_image = "registry.test/iris/missing:1"

    async def test_what_it_uses(self, runtime: Runtime, make_spec: SpecMaker) -> None:
        """Nobody counts: it says so."""
        spec = await self._running(runtime, make_spec, "user")
        with pytest.raises(NotSupported) as caught:
            await runtime.stats(spec.id)
        assert caught.value.field == "stats"


@pytest.mark.parametrize(
    "more",
    [{"cpu_limit_millicores": 1}, {"memory_limit_bytes": 2**30}, {"pids_limit": 7}, {"hugepage_limits_bytes": {2**21: 1}},
     {"shm_size_bytes": 1}, {"network_namespace": "/x"}, {"cdi_devices": ["a/b=c"]}, {"user": 1}, {"group": 1}, {"inside": "s"},
     {"before": ["x"]}, {"privileged": True}, {"add_capabilities": ["KILL"]}, {"drop_capabilities": ["ALL"]},
     {"supplemental_groups": [1]}],
    ids=lambda more: next(iter(more)),
)  # fmt: skip
async def test_what_it_does_not_do_is_named(
    runtime: EnrootRuntime, make_spec: SpecMaker, more: dict[str, object]
) -> None:
    with pytest.raises(NotSupported) as caught:
        await runtime.start(make_spec("no", ["true"], **more))
    assert caught.value.field == next(iter(more))
    assert caught.value.field in str(caught.value)


async def test_fields_of_commands_that_it_does_not_do(runtime: EnrootRuntime) -> None:
    for request in (ExecRequest(["true"], user=1), ExecRequest(["true"], working_dir="/tmp")):
        with pytest.raises(NotSupported):
            await runtime.execute("any", request)
    with pytest.raises(NotSupported, match="digest"):
        import_uri("registry.test/a@sha256:1")


def test_the_words_for_a_start(make_spec: SpecMaker) -> None:
    spec = make_spec(
        "words", ["run"], args=["-x"], env=[("A", "b c")], working_dir="/w", gpus=["0", "1"],
        mounts=[Mount("/data", "/mnt", read_only=True)], tmpfs=[Tmpfs("/t", 4096, 0o700)],
        devices=[Device("/dev/nvidia0", "/dev/nvidia0"), Device("/dev/a", "/dev/b")],
    )  # fmt: skip
    assert start_words("enroot", spec, "/rc") == [
        "enroot", "start", "--rw", "--env", "A=b c", "--env", "NVIDIA_VISIBLE_DEVICES=0,1",
        "--mount", "/data:/mnt:none:x-create=auto,rbind,ro", "--mount", "tmpfs:/t:tmpfs:x-create=dir,size=4096,mode=700",
        "--mount", "/dev/a:/dev/b:none:x-create=file,bind", "--rc", "/rc", "--", spec.id, "/w", "run", "-x",
    ]  # fmt: skip
    assert start_words("enroot", replace(spec, command=(), env=(), gpus=(), mounts=(), tmpfs=(), devices=()), "/rc") == [
        "enroot", "start", "--rw", "--", spec.id, "-x",
    ]  # fmt: skip


async def test_it_outlives_the_agent(runtime: EnrootRuntime, make_spec: SpecMaker, tmp_path: Path) -> None:
    await runtime.pull(IMAGE)
    spec = make_spec("long", ["sh", "-c", "pwd; sleep 0.4; echo two >&2; exit 5"], working_dir="/tmp")
    await runtime.start(spec)
    second = EnrootRuntime(str(FAKE), tmp_path / "enroot")
    assert (await second.get(spec.id)).state is SandboxState.RUNNING
    assert (await ended(second, spec.id)).exit_code == 5
    assert spec.log_path.read_text() == "/tmp\ntwo\n"


async def test_a_dead_keeper_is_a_loss(runtime: EnrootRuntime, make_spec: SpecMaker, tmp_path: Path) -> None:
    await runtime.pull(IMAGE)
    spec = make_spec("orphan", ["sleep", "1000"])
    pid = (await runtime.start(spec)).pid
    state = json.loads((tmp_path / "enroot/sandboxes" / spec.id / "state.json").read_text())
    os.kill(state["keeper"], signal.SIGKILL)
    found = await ended(runtime, spec.id)
    os.kill(pid, signal.SIGKILL)
    assert (found.lost, found.exit_code) == (True, 255)
    assert (await runtime.start(spec)).state is SandboxState.EXITED


async def test_removal_ends_those_who_have_left(runtime: EnrootRuntime, make_spec: SpecMaker) -> None:
    await runtime.pull(IMAGE)
    spec = make_spec("leaver", ["sh", "-c", "setsid sleep 777 & echo $!; wait"])
    await runtime.start(spec)
    while not (spec.log_path.exists() and spec.log_path.read_text()):
        await asyncio.sleep(0.02)
    child = int(spec.log_path.read_text())
    await runtime.remove(spec.id)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


async def test_a_commands_timeout_ends_descendants_too(runtime: EnrootRuntime, make_spec: SpecMaker) -> None:
    await runtime.pull(IMAGE)
    spec = make_spec("nest", ["sleep", "1000"])
    await runtime.start(spec)
    nest = ExecRequest(["sh", "-c", "setsid sleep 778 & echo $!; wait"])
    found = await run_command(runtime, spec.id, nest, 0.5)
    assert found.timed_out
    child = int(found.output)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


async def test_not_executable(runtime: EnrootRuntime, make_spec: SpecMaker) -> None:
    await runtime.pull(IMAGE)
    with pytest.raises(CommandNotExecutable):
        await runtime.start(make_spec("text", ["/etc/passwd"]))
    linked = make_spec("linked", ["/usr/bin/true"])  # an absolute link, within the image
    await runtime.start(linked)
    assert (await ended(runtime, linked.id)).exit_code == 0


async def test_images(runtime: EnrootRuntime, make_spec: SpecMaker) -> None:
    with pytest.raises(ImageNotFound, match="Never"):
        await runtime.pull(IMAGE, "Never")
    with pytest.raises(ImageNotFound):
        await runtime.start(make_spec("early", ["true"]))
    image = await runtime.pull(IMAGE)
    assert await runtime.present(IMAGE) == image
    with pytest.raises(ImageInUse):
        await runtime.remove_image(IMAGE, unused_since=(await runtime.images())[0].last_used.replace(year=2000))
    await runtime.remove_image(IMAGE)
    assert await runtime.images() == []


async def test_credentials_are_tried_in_order(runtime: EnrootRuntime, tmp_path: Path) -> None:
    with pytest.raises(ImageUnauthorized, match="without"):
        await runtime.pull(LOCKED)
    wrong, right = Credentials("iris", "guess"), Credentials("iris", "open")
    assert (await runtime.pull(LOCKED, credentials=[wrong, right])).digest.startswith("sha256:")
    assert not list((tmp_path / "enroot").rglob(".credentials"))


async def test_no_program(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match="can't be run"):
        await EnrootRuntime("/nonexistent/enroot", tmp_path).version()
