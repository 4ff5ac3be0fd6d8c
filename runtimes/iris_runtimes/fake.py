"""A runtime in memory for tests of what stands on it; passes the same contract tests as the drivers.

`true` and `false` exit at once with 0 and 1, `exit N` with N, `sleep N` never by itself (tests call `finish`), anything in
`missing_commands` is not found; in a running sandbox, see fake_session. Images are all there but for `missing_images`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime

from iris_runtimes.errors import (
    CommandNotFound,
    ImageInUse,
    ImageNotFound,
    RuntimeUnavailable,
    SandboxNotFound,
    SandboxNotRunning,
)
from iris_runtimes.execution import ExecRequest, ExecSession, Stats
from iris_runtimes.fake_session import FakeSession
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

_DIGEST = "sha256:" + "0" * 64
_IMAGE_BYTES = 2**20


class FakeRuntime:
    """Satisfies protocol.Runtime."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.specs: dict[str, SandboxSpec] = {}
        self.started: list[str] = []
        self.stored: dict[str, datetime] = {}
        self.sessions: list[FakeSession] = []
        self.signals: list[tuple[str, int]] = []
        self.missing_images: set[str] = set()
        self.missing_commands: set[str] = {"/nonexistent"}
        self.ignores_sigterm: set[str] = set()
        self.available = True
        self.context = PodContext(CgroupParent("/kubepods/pod-fake"))
        self._changed = asyncio.Event()
        self._subscribers: set[asyncio.Queue[Exited | None]] = set()

    def _check(self) -> None:
        if not self.available:
            raise RuntimeUnavailable("the fake runtime is switched off")

    def break_down(self) -> None:
        """Stop answering; event streams end."""
        self.available = False
        self._tell(None)

    def finish(self, sandbox_id: str, code: int = 0, *, oom_killed: bool = False, lost: bool = False) -> None:
        """Let the command end; `lost`: with nobody seeing how."""
        before = self.sandboxes[sandbox_id]
        ended = Exit(255 if lost else code, datetime.now(UTC), oom_killed, lost=lost)
        self.sandboxes[sandbox_id] = Sandbox(before.id, before.labels, SandboxState.EXITED, 0, ended)
        for inner in self._inside(sandbox_id):
            if self.sandboxes[inner].state is SandboxState.RUNNING:
                self.finish(inner, 137, lost=lost)
        self._tell(Exited(sandbox_id))

    def _inside(self, sandbox_id: str) -> list[str]:
        return [one for one, spec in self.specs.items() if spec.inside == sandbox_id and one in self.sandboxes]

    def _tell(self, event: Exited | None) -> None:
        for queue in self._subscribers:
            queue.put_nowait(event)
        self._changed.set()
        self._changed = asyncio.Event()

    async def version(self) -> RuntimeVersion:
        self._check()
        return RuntimeVersion("fake", "1")

    async def pod_context(self, pod_uid: str) -> PodContext:
        self._check()
        return self.context

    async def gpu_way(self, gpus: Sequence[str], devices: Sequence[Device]) -> str:
        self._check()
        return "nothing: they are made up" if gpus else ""

    async def pull(
        self,
        reference: str,
        policy: PullPolicy = "IfNotPresent",
        credentials: Sequence[Credentials] = (),
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> Image:
        self._check()
        if reference in self.missing_images:
            raise ImageNotFound(f"no image {reference}")
        if policy == "Never" and reference not in self.stored:
            raise ImageNotFound(f"image {reference} is not on the node, and imagePullPolicy is Never")
        self.stored[reference] = datetime.now(UTC)
        return Image(reference, _DIGEST)

    async def present(self, reference: str) -> Image | None:
        self._check()
        return Image(reference, _DIGEST) if reference in self.stored else None

    async def images(self) -> list[StoredImage]:
        self._check()
        used = self._used_images()
        return [StoredImage(name, _DIGEST, _IMAGE_BYTES, at, name in used) for name, at in self.stored.items()]

    async def remove_image(self, reference: str, unused_since: datetime | None = None) -> None:
        self._check()
        at = self.stored.get(reference)
        if at is None:
            return
        if reference in self._used_images() or (unused_since is not None and at > unused_since):
            raise ImageInUse(f"image {reference} is in use")
        del self.stored[reference]

    def _used_images(self) -> set[str]:
        return {spec.image for sandbox_id, spec in self.specs.items() if sandbox_id in self.sandboxes}

    async def start(self, spec: SandboxSpec) -> Sandbox:
        self._check()
        if spec.id in self.sandboxes:
            return self.sandboxes[spec.id]
        if spec.inside and (await self.get(spec.inside)).state is not SandboxState.RUNNING:
            raise SandboxNotRunning(f"sandbox {spec.inside} does not run: nothing can be run in it")
        argv = [*spec.command, *spec.args]
        if argv and argv[0] in self.missing_commands:
            raise CommandNotFound(f"{argv[0]} is not in the image {spec.image}")
        self.specs[spec.id] = spec
        self.started.append(spec.id)
        self.sandboxes[spec.id] = Sandbox(spec.id, dict(spec.labels), SandboxState.RUNNING, 1000 + len(self.started))
        codes = {"true": 0, "false": 1}
        if argv and argv[0] in codes:
            self.finish(spec.id, codes[argv[0]])
        elif argv[:1] == ["exit"]:
            self.finish(spec.id, int(argv[1]))
        return self.sandboxes[spec.id]

    async def list(self) -> list[Sandbox]:
        self._check()
        return list(self.sandboxes.values())

    async def get(self, sandbox_id: str) -> Sandbox:
        self._check()
        if sandbox_id not in self.sandboxes:
            raise SandboxNotFound(f"no sandbox {sandbox_id}")
        return self.sandboxes[sandbox_id]

    async def wait(self, sandbox_id: str) -> Exit:
        while (found := await self.get(sandbox_id)).exit is None:
            await self._changed.wait()
        return found.exit

    async def signal(self, sandbox_id: str, signal: int, *, everyone: bool = False) -> None:
        sandbox = await self.get(sandbox_id)
        self.signals.append((sandbox_id, signal))
        if sandbox.state is SandboxState.RUNNING and not (signal != 9 and sandbox_id in self.ignores_sigterm):
            self.finish(sandbox_id, 128 + signal)

    async def execute(self, sandbox_id: str, request: ExecRequest) -> ExecSession:
        sandbox = await self.get(sandbox_id)
        if sandbox.state is not SandboxState.RUNNING:
            raise SandboxNotRunning(f"sandbox {sandbox_id} does not run: nothing can be run in it")
        if request.command[0] in self.missing_commands:
            raise CommandNotFound(f"{request.command[0]} is not in the image")
        self.sessions.append(FakeSession(request, dict(self.specs[sandbox_id].env)))
        return self.sessions[-1]

    async def stats(self, sandbox_id: str) -> Stats:
        if (await self.get(sandbox_id)).state is not SandboxState.RUNNING:
            raise SandboxNotRunning(f"sandbox {sandbox_id} does not run: it uses nothing")
        limit = self.specs[sandbox_id].memory_limit_bytes
        return Stats(datetime.now(UTC), 0.5, 2**20, 2**19, limit, 2**21, pids=1)

    async def remove(self, sandbox_id: str) -> None:
        self._check()
        for inner in self._inside(sandbox_id):
            await self.remove(inner)
        sandbox = self.sandboxes.pop(sandbox_id, None)
        if sandbox is not None and sandbox.state is SandboxState.RUNNING:
            self._tell(Exited(sandbox_id))

    async def events(self) -> AsyncGenerator[Exited, None]:
        self._check()
        queue: asyncio.Queue[Exited | None] = asyncio.Queue()
        self._subscribers.add(queue)
        try:
            for one in list(self.sandboxes.values()):
                if one.exit is not None:
                    yield Exited(one.id)
            while True:
                event = await queue.get()
                if event is None:
                    raise RuntimeUnavailable("the fake runtime was switched off")
                yield event
        finally:
            self._subscribers.discard(queue)

    async def close(self) -> None:
        """Nothing to let go of."""
