"""The enroot driver."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from iris_runtimes.enroot.images import Images
from iris_runtimes.enroot.limits import NAME, RC_SCRIPT, check_exec, check_spec, start_words
from iris_runtimes.enroot.program import Program, find_command
from iris_runtimes.enroot.session import EnrootSession
from iris_runtimes.enroot.store import SandboxStore
from iris_runtimes.errors import (
    CommandNotExecutable,
    CommandNotFound,
    ImageInUse,
    ImageNotFound,
    NodeFault,
    NotSupported,
    SandboxNotFound,
    SandboxNotRunning,
)
from iris_runtimes.execution import ExecRequest, ExecSession, Stats
from iris_runtimes.keyed import KeyedOperations
from iris_runtimes.protocol import (
    CgroupParent,
    Credentials,
    Device,
    Exit,
    Exited,
    Image,
    PodContext,
    PullPolicy,
    PullProgress,
    RuntimeVersion,
    Sandbox,
    SandboxSpec,
    SandboxState,
    StoredImage,
)

ROOT = Path("/var/lib/iris/enroot")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POLL_SECONDS = 0.05
_EVENT_SECONDS = 0.2


class EnrootRuntime:
    """Satisfies protocol.Runtime."""

    def __init__(self, program: str = "enroot", root: Path = ROOT, default_registry: str = "") -> None:
        self._program = Program(program, root / "data")
        self._images = Images(self._program, root / "images", default_registry)
        self._store = SandboxStore(root / "sandboxes")
        self._rc_file = root / "rc"
        self._operations = KeyedOperations()

    async def close(self) -> None:
        """Sandboxes go on with their keepers."""
        await self._operations.finish()

    async def version(self) -> RuntimeVersion:
        return RuntimeVersion(NAME, (await self._program.run("version")).words)

    async def pod_context(self, pod_uid: str) -> PodContext:
        """No cgroup and no devices: there are no Pods here."""
        return PodContext(CgroupParent(""))

    async def gpu_way(self, gpus: Sequence[str], devices: Sequence[Device]) -> str:
        return "enroot's hook" if gpus else ""

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        return await self._images.pull(reference, policy, credentials)

    async def present(self, reference: str) -> Image | None:
        digest = self._images.digest(self._images.full(reference))
        return None if digest is None else Image(reference, digest)

    async def images(self) -> list[StoredImage]:
        return self._images.stored(self._held())

    async def remove_image(self, reference: str, unused_since: datetime | None = None) -> None:
        name = self._images.full(reference)
        found = next((one for one in await self.images() if one.reference == name), None)
        if found is None:
            return
        if found.in_use or (unused_since is not None and found.last_used > unused_since):
            raise ImageInUse(f"image {reference} is not removed: it is in use")
        self._images.remove(name)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        check_spec(spec)
        return await self._operations.run(spec.id, self._start(spec))

    async def list(self) -> list[Sandbox]:
        looks = [self._store.look(one) for one in self._store.ids()]
        return [one for one in looks if one is not None]

    async def get(self, sandbox_id: str) -> Sandbox:
        found = self._store.look(sandbox_id)
        if found is None:
            raise SandboxNotFound(f"no sandbox {sandbox_id}")
        return found

    async def wait(self, sandbox_id: str) -> Exit:
        while (found := await self.get(sandbox_id)).exit is None:
            if found.state is SandboxState.CREATED:
                raise SandboxNotFound(f"sandbox {sandbox_id} was never started")
            await asyncio.sleep(_POLL_SECONDS)
        return found.exit

    async def signal(self, sandbox_id: str, signal: int, *, everyone: bool = False) -> None:
        found = await self.get(sandbox_id)
        if found.state is not SandboxState.RUNNING:
            return
        with suppress(ProcessLookupError):
            if everyone:  # the command leads its process group; its keeper ends those who have left it
                os.killpg(found.pid, signal)
            else:
                os.kill(found.pid, signal)

    async def execute(self, sandbox_id: str, request: ExecRequest) -> ExecSession:
        check_exec(request)
        found = await self.get(sandbox_id)
        if found.state is not SandboxState.RUNNING:
            raise SandboxNotRunning(f"sandbox {sandbox_id} does not run: nothing can be run in it")
        env = self._store.env_of(sandbox_id)
        self._check_command(sandbox_id, request.command[0], {**env, **dict(request.env)}.get("PATH", _PATH))
        return await EnrootSession.begin(self._program, found.pid, env, request)

    async def stats(self, sandbox_id: str) -> Stats:
        """What a sandbox uses is counted by cgroups, and there are none."""
        if (await self.get(sandbox_id)).state is not SandboxState.RUNNING:
            raise SandboxNotRunning(f"sandbox {sandbox_id} does not run: it uses nothing")
        raise NotSupported(NAME, "stats", "it makes no cgroups")

    async def remove(self, sandbox_id: str) -> None:
        await self._operations.run(sandbox_id, self._remove(sandbox_id))

    async def events(self) -> AsyncGenerator[Exited, None]:
        """By looking again and again: nobody tells of an exit here."""
        told: set[str] = set()
        while True:
            sandboxes = await self.list()
            for one in sandboxes:
                if one.exit is not None and one.id not in told:
                    yield Exited(one.id)
            told = {one.id for one in sandboxes if one.exit is not None}
            await asyncio.sleep(_EVENT_SECONDS)

    async def _start(self, spec: SandboxSpec) -> Sandbox:
        found = self._store.look(spec.id)
        if found is not None and found.state is not SandboxState.CREATED:
            return found
        name = self._images.full(spec.image)
        if self._images.digest(name) is None:
            raise ImageNotFound(f"image {spec.image} is not on the node")
        try:
            await asyncio.to_thread(spec.log_path.parent.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise NodeFault(f"the log's folder {spec.log_path.parent} can't be made: {error.strerror}") from error
        made = await self._program.run("create", "--force", "--name", spec.id, str(self._images.file(name)))
        if made.code != 0:
            raise NodeFault(f"enroot could not unpack image {spec.image}: {made.words}")
        try:
            if spec.command:
                self._check_command(spec.id, spec.command[0], dict(spec.env).get("PATH", _PATH))
            self._rc_file.write_text(RC_SCRIPT)
            words = start_words(self._program.path, spec, str(self._rc_file))
            await self._store.begin(spec, name, words, self._program.env())
        except BaseException:
            await self._remove(spec.id)
            raise
        return await self.get(spec.id)

    def _check_command(self, sandbox_id: str, command: str, path: str) -> None:
        """Beforehand: enroot's own word for a missing command is an exit code of 127, as of a shell's."""
        found = find_command(self._program.data / sandbox_id, command, path)
        if found is None:
            raise CommandNotFound(f"{command} is not in the image of sandbox {sandbox_id}")
        if not found.stat().st_mode & 0o111:
            raise CommandNotExecutable(f"{command} in the image of sandbox {sandbox_id} can't be executed")

    async def _remove(self, sandbox_id: str) -> None:
        await self._store.end(sandbox_id)
        if (self._program.data / sandbox_id).exists():
            done = await self._program.run("remove", "--force", sandbox_id)
            if done.code != 0:
                raise NodeFault(f"enroot could not remove sandbox {sandbox_id}: {done.words}")
        self._store.forget(sandbox_id)

    def _held(self) -> set[str]:
        return {self._store.image_of(one) for one in self._store.ids()}
