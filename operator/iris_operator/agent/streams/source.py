"""What the streams need of an agent, and how they refuse."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

from iris_operator.agent.logs.files import is_uid
from iris_operator.agent.sandbox.inotify import Inotify
from iris_operator.agent.server import LogState
from iris_operator.api.names import container_id
from iris_runtimes.protocol import Credentials, Runtime, Sandbox, SandboxState

TASK = r"/v1/tasks/{uid}/{attempt:[0-9]{1,9}}"
"""Below it are the paths of one attempt of a Task."""

_REASONS: Mapping[int, tuple[type[web.HTTPException], str]] = {
    400: (web.HTTPBadRequest, "BadRequest"),
    404: (web.HTTPNotFound, "NotFound"),
    409: (web.HTTPConflict, "Conflict"),
    503: (web.HTTPServiceUnavailable, "ServiceUnavailable"),
}


async def nothing() -> str:
    """Of a node without GPUs."""
    return ""


@dataclass(frozen=True)
class StreamSource:
    """An agent as the handlers see it.

    `sandboxes`: all of the node's, or those of one Task's uid. `problem`: one line, empty when healthy. `describe`: who
    this node is. `credentials`: for an image, by names of Secrets in the worker's namespace; raises ApiError, BadSecret.
    `gpus`: how many the worker has; `gpu_way`: how Tasks get them, in words. `address`: the node's.
    """

    runtime: Runtime
    logs_dir: Path
    cache_dir: Path
    log_state: Callable[[str, int], LogState]
    sandboxes: Callable[[str | None], Sequence[Sandbox]]
    problem: Callable[[], str]
    describe: Callable[[], Mapping[str, object]]
    credentials: Callable[[str, Sequence[str]], Awaitable[list[Credentials]]]
    gpus: Callable[[], int] = lambda: 0
    gpu_way: Callable[[], Awaitable[str]] = nothing
    address: str = ""


def refusal(status: Literal[400, 404, 409, 503], message: str) -> web.HTTPException:
    """To be raised: a metav1.Status with a line for a person, which the gateway hands on as it is."""
    kind, reason = _REASONS[status]
    body: dict[str, Any] = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status,
    }  # fmt: skip
    return kind(text=json.dumps(body), content_type="application/json")


def attempt_of(request: web.Request) -> tuple[str, int]:
    """Uid and attempt that the path names."""
    uid = request.match_info["uid"]
    if not is_uid(uid):
        raise refusal(400, f"{uid} is no Task uid")
    return uid, int(request.match_info["attempt"])


def running_sandbox(source: StreamSource, request: web.Request) -> Sandbox:
    """The sandbox of the attempt that the path names. Refuses when it does not run."""
    uid, attempt = attempt_of(request)
    found = [one for one in source.sandboxes(uid) if one.id == container_id(uid, attempt)]
    if not found:
        raise refusal(404, source.problem() or f"attempt {attempt} of the Task does not run on this node (any more)")
    if found[0].state is not SandboxState.RUNNING:
        raise refusal(409, f"attempt {attempt} of the Task does not run: its command has ended")
    return found[0]


def number(request: web.Request, name: str, default: int, least: int, most: int = 2**53) -> int:
    """A whole number of the query."""
    text = request.query.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.removeprefix("-").isdigit() or not least <= int(text) <= most:
        raise refusal(400, f"{name} is {text!r}: it is a whole number, {least} or more, {most} at most")
    return int(text)


def flag(request: web.Request, name: str) -> bool:
    """A yes or no of the query."""
    return request.query.get(name, "") in ("1", "true")


# Where the handlers keep the kernel's word on files; made when the app starts, for it belongs to the loop.
NOTIFY: web.AppKey[Inotify] = web.AppKey("notify", Inotify)
