"""logs.archive: the log of an attempt that is over is copied to object storage, so that it outlives its slice.

What was copied is noted beside the log, so the next agent goes on where this one ended. A copy never delays a Task's end;
only a Task's deletion and the worker's own end wait for it, and not for long: `settle`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from iris_operator.adapters.s3 import MOST_BYTES, Bucket, Keys, S3Error
from iris_operator.agent.backoff import Backoff
from iris_operator.agent.logs.bounds import dropped_line, first_kept
from iris_operator.agent.logs.files import log_file, name_of_logs
from iris_operator.agent.server import LogState
from iris_operator.api.cluster import LogArchive
from iris_operator.api.task import Task, TaskPhase
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import SECRETS, TASKS, Body, KubeApi

log = logging.getLogger(__name__)

_MARK = "archived"
_SIDE_BY_SIDE = 4
_BACKOFF_SECONDS = (1.0, 60.0)
_HEAD_BYTES = 1024
_ENDED = frozenset(phase.value for phase in TaskPhase if phase.ended)

Put = Callable[[Bucket, str, Keys | None, Path, int, bytes], Awaitable[str]]
"""Bucket, key, keys, file, its first byte wanted, what to write before it -> URL. S3Error, OSError."""


class BadSecret(Exception):
    """The archive's Secret lacks what it needs; the message says what."""


def object_key(settings: LogArchive, namespace: str, task: str, uid: str, attempt: int) -> str:
    """Where a log goes in its bucket."""
    return f"{settings.prefix}{namespace}/{task}/{uid}/{attempt}.log"


def archive_keys(secret: Body) -> Keys:
    """Out of the Secret that logs.archive names. BadSecret."""
    data = secret.get("data") or {}
    try:
        found = [base64.b64decode(data[name]).decode().strip() for name in ("accessKeyID", "secretAccessKey")]
    except (KeyError, ValueError) as error:
        name = secret["metadata"]["name"]
        raise BadSecret(f"Secret {name} has no usable accessKeyID and secretAccessKey") from error
    return Keys(*found)


def unmarked(logs_dir: Path, uid: str) -> list[int]:
    """Attempts of a Task with a log here that was not copied yet."""
    folder = logs_dir / uid
    found = [int(one.name) for one in folder.iterdir() if one.name.isdigit()] if folder.is_dir() else []
    return sorted(one for one in found if not mark_of(logs_dir, uid, one) and log_file(logs_dir, uid, one).is_file())


def mark_of(logs_dir: Path, uid: str, attempt: int) -> str:
    """URL that a log was copied to; empty when it was not."""
    try:
        return log_file(logs_dir, uid, attempt).with_name(_MARK).read_text()
    except FileNotFoundError:
        return ""


class Archive:
    """`settings`: as they are now. `log_state`: ended for what may be copied. `task`: of a uid, if it is this node's."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        logs_dir: Path,
        settings: Callable[[], LogArchive],
        log_state: Callable[[str, int], LogState],
        task: Callable[[str], Task | None],
        put: Put,
        wrote: Callable[[str, str], None],
    ) -> None:
        self._api, self._namespace, self._logs_dir = api, namespace, logs_dir
        self._settings, self._log_state, self._task = settings, log_state, task
        self._put, self._wrote = put, wrote
        self._jobs: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._done: dict[str, set[int]] = {}
        self._slots = asyncio.Semaphore(_SIDE_BY_SIDE)

    @property
    def waiting(self) -> int:
        """Logs that are being copied, or shall be."""
        return len(self._jobs)

    def look(self, uid: str) -> None:
        """Something about a Task of this node changed: copy its log if that attempt is over now. Costs nothing else."""
        task = self._task(uid)
        if task is None or task.spec.binding is None or not self._settings().bucket:
            return
        attempt = task.spec.binding.attempt
        # Not before its end is told: it is told of the archive only after that.
        told = (task.ended and task.status.attempt == attempt) or (task.status.ended_attempt or 0) >= attempt
        if told and self._log_state(uid, attempt) == "ended":
            self._begin(uid, attempt)

    async def look_at_files(self, uids: Iterable[str]) -> None:
        """Copy what is over of these Tasks and was not copied yet, by what lies on the disk."""
        for uid in uids if self._settings().bucket else ():
            for attempt in await asyncio.to_thread(unmarked, self._logs_dir, uid):
                if self._log_state(uid, attempt) in ("ended", "unknown"):
                    self._begin(uid, attempt)

    async def settle(self, uid: str, seconds: float) -> None:
        """Before a Task's logs are deleted: copy what was not, in at most so long."""
        await self.look_at_files([uid])
        await self._wait([job for key, job in self._jobs.items() if key[0] == uid], seconds)
        self._done.pop(uid, None)
        for key in [key for key in self._jobs if key[0] == uid]:
            log.warning("the log of Task %s, attempt %d, is deleted though it could not be archived", *key)
            self._jobs[key].cancel()

    async def settle_all(self, seconds: float) -> None:
        """Before this worker goes: finish what is under way, in at most so long."""
        await self._wait(list(self._jobs.values()), seconds)

    def forget(self, uid: str) -> None:
        """Nothing of the Task is here any more."""
        self._done.pop(uid, None)

    async def close(self) -> None:
        """Stop: the next agent goes on."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _wait(self, jobs: list[asyncio.Task[None]], seconds: float) -> None:
        if jobs:
            await asyncio.wait(jobs, timeout=seconds)

    def _begin(self, uid: str, attempt: int) -> None:
        key = (uid, attempt)
        if key in self._jobs or attempt in self._done.get(uid, ()):
            return
        job = self._jobs[key] = asyncio.create_task(self._copy(uid, attempt), name=f"archive log {uid} {attempt}")
        job.add_done_callback(lambda _: self._jobs.pop(key, None))

    async def _copy(self, uid: str, attempt: int) -> None:
        backoff, url = Backoff(*_BACKOFF_SECONDS), ""
        while bucket := self._settings().bucket:
            try:
                async with self._slots:
                    url = url or await self._copy_once(uid, attempt, self._settings())
                    await self._tell(uid, attempt, url)
                    await asyncio.to_thread(_mark, log_file(self._logs_dir, uid, attempt), url)
                self._done.setdefault(uid, set()).add(attempt)
                return
            except (S3Error, ApiError, BadSecret, OSError) as error:
                log.warning("archiving the log of Task %s, attempt %d, in bucket %s: %s", uid, attempt, bucket, error)
            await backoff.wait()

    async def _copy_once(self, uid: str, attempt: int, settings: LogArchive) -> str:
        """The URL, also of one that an agent before us copied; empty when there is no log."""
        path = log_file(self._logs_dir, uid, attempt)
        there = await asyncio.to_thread(mark_of, self._logs_dir, uid, attempt)
        name = await asyncio.to_thread(name_of_logs, self._logs_dir, uid)
        if there or not name or not path.is_file():
            return there
        keys = await self._keys(settings.secret_name)
        begin = await asyncio.to_thread(_first_wanted, path)
        key = object_key(settings, self._namespace, name, uid, attempt)
        bucket = Bucket(settings.endpoint, settings.region, settings.bucket)
        return await self._put(bucket, key, keys, path, begin, dropped_line(begin) if begin else b"")

    async def _keys(self, secret_name: str) -> Keys | None:
        if not secret_name:
            return None
        try:
            secret = await self._api.get(SECRETS, secret_name, self._namespace)
        except NotFoundError as error:
            raise BadSecret(
                f"logs.archive names Secret {secret_name}, absent in namespace {self._namespace}"
            ) from error
        return archive_keys(secret)

    async def _tell(self, uid: str, attempt: int, url: str) -> None:
        """In the Task's status: beside the attempt, once it is followed by another; of the last one, where the log is too."""
        name = await asyncio.to_thread(name_of_logs, self._logs_dir, uid)
        while url and name:
            try:
                found = await self._api.get(TASKS, name, self._namespace)
                said = _where_to_say(found, uid, attempt, url)
                if said is None:
                    return
                body = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "status": said}
                self._wrote("patch", "tasks/status")
                await self._api.patch(TASKS, name, body, namespace=self._namespace, subresource="status")
                return
            except NotFoundError:
                return
            except ConflictError:
                continue


def _where_to_say(found: Body, uid: str, attempt: int, url: str) -> dict[str, Any] | None:
    """What to patch of a Task's status; None: nothing, it is said already, or nobody would look for it there."""
    status = found.get("status") or {}
    if found["metadata"]["uid"] != uid:
        return None
    attempts = status.get("attempts") or []
    # The raw list: a newer operator may have written more into it than we know.
    told = [{**one, "logArchive": url} if one.get("attempt") == attempt else one for one in attempts]
    if told != attempts:
        return {"attempts": told}
    ended = status.get("phase") in _ENDED and status.get("attempt") == attempt
    return {"logArchive": url} if ended and status.get("logArchive") != url else None


def _mark(path: Path, url: str) -> None:
    if path.is_file():  # else there was no log, or it went with its Task
        path.with_name(_MARK).write_text(url)


def _first_wanted(path: Path) -> int:
    """What was dropped is not there; and of a log too large for one object, its end is worth more than its beginning."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        return max(first_kept(file.fileno()), size - MOST_BYTES + _HEAD_BYTES)
