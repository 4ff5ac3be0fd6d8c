"""What a Task needs before it starts, brought in the background: its image, and beside it its inputs. One job per Task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from iris_operator.agent.inputs.model import Fetching, InputFault, Inputs, Whose
from iris_operator.agent.inputs.prepare import Preparer
from iris_operator.agent.memories import Memories
from iris_operator.agent.memory import Pulling
from iris_operator.agent.sandbox.credentials import BadSecret, credentials_for
from iris_operator.api.names import container_id
from iris_operator.api.task import Task
from iris_operator.ports.errors import ApiError, NotFoundError
from iris_operator.ports.kube import SECRETS, KubeApi
from iris_runtimes.errors import ImageUnauthorized, RuntimeFault
from iris_runtimes.protocol import Credentials, PullProgress, Runtime

# An object that is applied after its Task is seen this soon.
_LONGEST_WAIT_FOR_OBJECTS_SECONDS = 10.0


class Pulls:
    """`on_change` is called with the uid of a Task whose job ended."""

    def __init__(
        self,
        api: KubeApi,
        runtime: Runtime,
        inputs: Preparer,
        memories: Memories,
        on_change: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        self._api, self._runtime, self._inputs, self._memories = api, runtime, inputs, memories
        self._on_change, self._now = on_change, now
        self.registry = ""  # of images that name none
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._digests: dict[str, tuple[int, str]] = {}  # of images that came while the inputs did not: attempt, digest

    def begin(self, task: Task) -> None:
        """Bring the Task's image and inputs."""
        self._memories.update(task, pulling=Pulling(self._now()))
        uid = task.metadata.uid
        self._jobs[uid] = asyncio.create_task(self._run(task), name=f"pull {uid}")

    async def cancel(self, uid: str) -> None:
        """Stop bringing them."""
        job = self._jobs.get(uid)
        if job is not None:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    async def close(self) -> None:
        """Stop all."""
        for uid in list(self._jobs):
            await self.cancel(uid)

    async def discard(self, uid: str, attempt: int | None = None) -> None:
        """Take away the inputs of an attempt that is over, or of all of the Task's."""
        self._digests.pop(uid, None)
        await self._inputs.discard(uid, attempt)

    async def discard_sandbox(self, uid: str, sandbox_id: str) -> None:
        """Take away the inputs of a sandbox that was removed."""
        attempt = sandbox_id.removeprefix(container_id(uid, 0).removesuffix("0"))
        if attempt.isdigit():
            await self.discard(uid, int(attempt))

    async def _run(self, task: Task) -> None:
        uid = task.metadata.uid
        try:
            digest, inputs = await self._both(task)
            self._digests.pop(uid, None)
            self._memories.update(task, image_digest=digest, inputs=inputs, trouble=None)
        except RuntimeFault as fault:
            self._memories.failed(task, fault, self._now())
        except InputFault as fault:
            await self._inputs_failed(task, fault)
        except BadSecret as bad:
            self._memories.cannot_start(task, "PullSecretInvalid", str(bad), self._now())
        except ApiError as error:
            self._memories.in_trouble(task, "PullSecretUnread", f"reading imagePullSecrets: {error}", self._now())
        finally:
            self._memories.update(task, pulling=None)
            self._jobs.pop(uid, None)
            self._on_change(uid)

    async def _both(self, task: Task) -> tuple[str, Inputs]:
        """Image's digest and inputs. Of two failures the user's is raised: trying again would not mend it."""
        if not self._inputs.needed(task):
            return await self._image(task), await self._inputs.prepare(task, _untold)
        latest: list[Fetching] = []
        image = asyncio.create_task(self._image(task))

        def tell(seen: Fetching) -> None:
            latest[:] = [seen]
            if image.done():
                self._fetching(task, seen)

        def image_came(_: asyncio.Task[str]) -> None:
            for seen in latest:
                self._fetching(task, seen)

        image.add_done_callback(image_came)
        inputs = asyncio.create_task(self._inputs.prepare(task, tell))
        both: set[asyncio.Task[str] | asyncio.Task[Inputs]] = {image, inputs}
        try:
            done, rest = await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            if rest and not any(_is_users(one.exception()) for one in done):
                await asyncio.wait(rest)
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        errors = [error for one in both if not one.cancelled() and (error := one.exception()) is not None]
        if errors:
            raise max(errors, key=_is_users)
        return image.result(), inputs.result()

    async def _inputs_failed(self, task: Task, fault: InputFault) -> None:
        assert task.spec.binding is not None
        if fault.whose is Whose.USER:
            await self._inputs.discard(task.metadata.uid, task.spec.binding.attempt)
            self._memories.cannot_start(task, fault.reason, str(fault), self._now())
        elif fault.whose is Whose.ABSENT:
            longest = _LONGEST_WAIT_FOR_OBJECTS_SECONDS
            self._memories.in_trouble(task, fault.reason, str(fault), self._now(), longest)
        else:
            self._memories.in_trouble(task, fault.reason, str(fault), self._now())

    async def _image(self, task: Task) -> str:
        assert task.spec.binding is not None
        attempt, digest = self._digests.get(task.metadata.uid, (0, ""))
        if attempt == task.spec.binding.attempt:
            return digest
        credentials, absent = await self._credentials(task)
        try:
            image = await self._runtime.pull(
                task.spec.image, task.spec.image_pull_policy, credentials, lambda seen: self._pulling(task, seen)
            )
        except ImageUnauthorized as fault:
            raise (ImageUnauthorized(f"{fault} ({absent})") if absent else fault) from fault
        self._digests[task.metadata.uid] = task.spec.binding.attempt, image.digest
        return image.digest

    def _pulling(self, task: Task, seen: PullProgress) -> None:
        pulling = self._memories.of(task).pulling
        if pulling is not None:
            more = replace(pulling, done_bytes=seen.done_bytes, total_bytes=seen.total_bytes)
            self._memories.update(task, pulling=more)

    def _fetching(self, task: Task, seen: Fetching) -> None:
        """How far the bundle is: told once the image is there."""
        pulling = self._memories.of(task).pulling
        if pulling is not None:
            more = replace(pulling, done_bytes=seen.done_bytes, total_bytes=seen.total_bytes, fetching=seen.what)
            self._memories.update(task, pulling=more)

    async def _credentials(self, task: Task) -> tuple[list[Credentials], str]:
        """What fits the image, and words on Secrets that don't exist: as in a Pod, that alone is no error."""
        secrets, absent = [], []
        for reference in task.spec.image_pull_secrets:
            try:
                secrets.append(await self._api.get(SECRETS, reference.name, task.metadata.namespace))
            except NotFoundError:
                absent.append(reference.name)
        words = f"imagePullSecrets names {', '.join(absent)}, absent in namespace {task.metadata.namespace}"
        return credentials_for(task.spec.image, secrets, self.registry), words if absent else ""


def _untold(_: Fetching) -> None:
    """Nothing is fetched."""


def _is_users(error: BaseException | None) -> bool:
    """Whether only a person can mend it."""
    if isinstance(error, InputFault):
        return error.whose is Whose.USER
    return isinstance(error, BadSecret) or (isinstance(error, RuntimeFault) and error.who == "user")
