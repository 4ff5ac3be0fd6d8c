"""Image pulls in the background, one per Task; the Task's worker looks at how far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from iris_operator.agent.credentials import BadSecret, credentials_for
from iris_operator.agent.memories import Memories
from iris_operator.agent.memory import Pulling
from iris_operator.api.task import Task
from iris_operator.ports.errors import ApiError, NotFoundError
from iris_operator.ports.kube import SECRETS, KubeApi
from iris_runtimes.errors import ImageUnauthorized, RuntimeFault
from iris_runtimes.protocol import Credentials, PullProgress, Runtime


class Pulls:
    """`on_change` is called with the uid of a Task whose pull ended."""

    def __init__(
        self,
        api: KubeApi,
        runtime: Runtime,
        memories: Memories,
        on_change: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        self._api, self._runtime, self._memories = api, runtime, memories
        self._on_change, self._now = on_change, now
        self.registry = ""  # of images that name none
        self._jobs: dict[str, asyncio.Task[None]] = {}

    def begin(self, task: Task) -> None:
        """Fetch the Task's image."""
        self._memories.update(task, pulling=Pulling(self._now()))
        uid = task.metadata.uid
        self._jobs[uid] = asyncio.create_task(self._run(task), name=f"pull {uid}")

    async def cancel(self, uid: str) -> None:
        """Stop fetching."""
        job = self._jobs.get(uid)
        if job is not None:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    async def close(self) -> None:
        """Stop all."""
        for uid in list(self._jobs):
            await self.cancel(uid)

    async def _run(self, task: Task) -> None:
        def on_progress(progress: PullProgress) -> None:
            pulling = self._memories.of(task).pulling
            if pulling is not None:
                seen = replace(pulling, done_bytes=progress.done_bytes, total_bytes=progress.total_bytes)
                self._memories.update(task, pulling=seen)

        try:
            credentials, absent = await self._credentials(task)
            try:
                image = await self._runtime.pull(task.spec.image, task.spec.image_pull_policy, credentials, on_progress)
            except ImageUnauthorized as fault:
                raise (ImageUnauthorized(f"{fault} ({absent})") if absent else fault) from fault
            self._memories.update(task, image_digest=image.digest, trouble=None)
        except RuntimeFault as fault:
            self._memories.failed(task, fault, self._now())
        except BadSecret as bad:
            self._memories.cannot_start(task, "PullSecretInvalid", str(bad), self._now())
        except ApiError as error:
            self._memories.in_trouble(task, "PullSecretUnread", f"reading imagePullSecrets: {error}", self._now())
        finally:
            self._memories.update(task, pulling=None)
            self._jobs.pop(task.metadata.uid, None)
            self._on_change(task.metadata.uid)

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
