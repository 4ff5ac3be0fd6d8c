"""`iris logs`: where it asks, what it waits for, and what it says when there is nothing to have."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import pytest

from iris_operator.cli import log_stream
from iris_operator.cli.log_stream import LogStream, Wanted
from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import TASKS
from tests.unit.iris_operator.cli.build import BINDING, DONE, STARTED, Answer, Api, broken


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    for name in ("_AGAIN_SECONDS", "_SETTLE_SECONDS", "_QUIET_SECONDS", "_GONE_SECONDS"):
        monkeypatch.setattr(log_stream, name, 0.01)
    return Api()


class Terminal:
    """What a person would see."""

    def __init__(self, api: Api, **wanted: Any) -> None:
        self.out, self.said = b"", list[str]()
        self.stream = LogStream(api.session, "t", self.write, self.said.append, Wanted(**wanted))

    def write(self, chunk: bytes) -> None:
        self.out += chunk


LOG = "/apis/stream.iris.dev/v1alpha1/namespaces/default/tasks/t/log"


async def test_it_asks_the_gateway(api: Api) -> None:
    await api.task(STARTED)
    api.answers = [Answer(b"words\n")]
    terminal = Terminal(api)
    await terminal.stream.print()
    assert terminal.out == b"words\n"
    assert api.asked == [(LOG, {"follow": "0", "attempt": "1"})]


async def test_without_a_gateway_it_says_so(api: Api) -> None:
    await api.task(STARTED)
    api.answers = [NotFoundError(404, "", "404 page not found\n")]
    with pytest.raises(click.ClickException, match="no gateway in this cluster"):
        await Terminal(api).stream.print()


async def test_what_is_wanted_is_handed_on(api: Api) -> None:
    await api.task(STARTED)
    api.answers = [Answer(b"x\n", offset=90)]
    await Terminal(api, tail=3, since_seconds=60, timestamps=True).stream.print()
    wanted = {"follow": "0", "attempt": "1", "tail": "3", "sinceSeconds": "60", "timestamps": "1"}
    assert api.asked[0][1] == wanted


THIRD = {**STARTED, "attempt": 3}


@pytest.mark.parametrize(("attempt", "asked"), [(-1, "2"), (1, "1"), (3, "3")])
async def test_earlier_attempts(api: Api, attempt: int, asked: str) -> None:
    await api.task(THIRD)
    await api.patch(TASKS, "t", {"spec": {"binding": {"attempt": 3}}}, namespace="default")
    api.answers = [Answer(b"x\n")]
    await Terminal(api, attempt=attempt).stream.print(follow=True)
    assert api.asked[0][1] == {"follow": "1", "attempt": asked}


async def test_between_two_attempts_the_one_before_is_the_last(api: Api) -> None:
    await api.task({"phase": "Pending", "reason": "BackOff", "attempt": 1, "endedAttempt": 1}, bound=False)
    api.answers = [Answer(b"x\n")]
    await Terminal(api, attempt=-1).stream.print()
    assert api.asked[0][1] == {"follow": "0", "attempt": "1"}


@pytest.mark.parametrize(
    ("attempt", "words"),
    [(4, "has no attempt 4: its present attempt is 3"), (-3, "has no attempt before it: its present attempt is 3")],
)
async def test_attempts_that_were_not(api: Api, attempt: int, words: str) -> None:
    await api.task(THIRD)
    await api.patch(TASKS, "t", {"spec": {"binding": {"attempt": 3}}}, namespace="default")
    with pytest.raises(click.ClickException, match=words):
        await Terminal(api, attempt=attempt).stream.print()


async def test_a_log_that_was_archived_says_where(api: Api) -> None:
    await api.task({**DONE, "logArchive": "s3://logs/x"})
    api.answers = [NotFoundError(404, "NotFound", 'pods "s-worker-0" not found')]
    with pytest.raises(click.ClickException, match=r"the log with it. It is kept at s3://logs/x. How it ended"):
        await Terminal(api).stream.print()


async def test_an_earlier_attempts_log_says_its_own_place(api: Api) -> None:
    earlier = [{"attempt": 2, "reason": "Error", "logArchive": "s3://logs/2"}, {"attempt": 1, "reason": "Error"}]
    await api.task({**DONE, "attempts": earlier, "logArchive": "s3://logs/3"})
    await api.patch(TASKS, "t", {"spec": {"binding": {"attempt": 3}}}, namespace="default")
    for attempt, words in ((2, r"It is kept at s3://logs/2\.$"), (1, r"not found$")):
        api.answers = [NotFoundError(404, "NotFound", "no worker is there: not found")]
        with pytest.raises(click.ClickException, match=words):
            await Terminal(api, attempt=attempt).stream.print()


async def test_a_broken_stream_with_times_goes_on_at_the_right_byte(api: Api) -> None:
    stamp = b"2026-11-21T12:00:00Z "
    await api.task(STARTED)
    api.answers = [Answer(stamp + b"one\n" + stamp + b"tw", broken()), Answer(b"o\n" + stamp[:9], broken(), offset=6),
                   Answer(stamp + b"three\n", offset=8), Answer(offset=14)]  # fmt: skip
    terminal = Terminal(api, timestamps=True)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.2)
    await api.say(DONE)
    await following
    assert terminal.out == stamp + b"one\n" + stamp + b"two\n" + stamp + b"three\n"
    assert [params.get("sinceBytes") for _, params in api.asked[:4]] == [None, "6", "8", "14"]


async def test_following_waits_for_the_start_and_says_why(api: Api) -> None:
    await api.task({"phase": "Pending", "reason": "NoRoom", "message": "needs 8 GPUs, 4 are free"})
    await api.worker()
    api.answers = [Answer(b"a\n")]
    terminal = Terminal(api)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.1)
    assert terminal.said == ["waiting for Task t: Pending: NoRoom: needs 8 GPUs, 4 are free"]
    await api.say(DONE)
    task = await following
    assert task is not None
    assert task.status.exit_code == 0


async def test_a_broken_stream_goes_on_where_it_was(api: Api) -> None:
    await api.task(STARTED)
    await api.worker()
    api.answers = [Answer(b"one\n", broken()), broken(), Answer(b"two\n", offset=4), Answer(offset=8)]
    terminal = Terminal(api)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.15)
    await api.say(DONE)
    await following
    assert terminal.out == b"one\ntwo\n"
    assert [params.get("sinceBytes") for _, params in api.asked[:4]] == [None, "4", "4", "8"]
    assert terminal.said == ["the agent in Pod s-worker-0 does not answer; waiting for it"]


async def test_a_tail_is_not_asked_for_again(api: Api) -> None:
    await api.task(DONE)
    await api.worker()
    api.answers = [Answer(b"last\n", offset=100), Answer(offset=105)]
    terminal = Terminal(api, tail=1)
    await terminal.stream.follow()
    assert terminal.out == b"last\n"
    assert api.asked[0][1]["tail"] == "1"
    assert api.asked[1][1] == {"follow": "0", "attempt": "1", "sinceBytes": "105"}


async def test_a_worker_that_is_gone_takes_the_log_with_it(api: Api) -> None:
    await api.task(DONE)
    api.answers = [NotFoundError(404, "NotFound", 'pods "s-worker-0" not found')]
    with pytest.raises(click.ClickException, match="its worker s-worker-0 is gone and the log with it"):
        await Terminal(api).stream.print()


async def test_no_such_task(api: Api) -> None:
    with pytest.raises(click.ClickException, match="no Task t in namespace default"):
        await Terminal(api).stream.print()
    with pytest.raises(click.ClickException, match="no Task t in namespace default"):
        await Terminal(api).stream.follow()


async def test_not_started_says_what_it_waits_for(api: Api) -> None:
    await api.task({"phase": "Pending", "reason": "NoRoom"}, bound=False)
    with pytest.raises(click.ClickException, match="has not started: Pending: NoRoom"):
        await Terminal(api).stream.print()


async def test_never_started_says_how_it_ended(api: Api) -> None:
    await api.task({"phase": "Failed", "reason": "ImageNotFound", "attempt": 1})
    with pytest.raises(click.ClickException, match="never started: Failed: ImageNotFound"):
        await Terminal(api).stream.print()


async def test_what_set_up_said_is_shown_though_the_command_never_started(api: Api) -> None:
    await api.task({"phase": "Failed", "reason": "SetupFailed", "attempt": 1, "logPath": "/logs/x"})
    await api.worker()
    api.answers = [Answer(b"no such host\n")]
    terminal = Terminal(api)
    await terminal.stream.print()
    assert terminal.out == b"no such host\n"


async def test_a_log_that_is_not_there(api: Api) -> None:
    await api.task(STARTED)
    await api.worker()
    api.answers = [NotFoundError(404, "", "no log of Task x, attempt 1, on this node\n")]
    with pytest.raises(click.ClickException, match="no log of attempt 1 of Task t: no log of Task x"):
        await Terminal(api).stream.print()


async def test_an_agent_that_stays_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said once while the Task may go on elsewhere; an error when it has ended."""
    monkeypatch.setattr(log_stream, "_PATIENCE_SECONDS", 0.05)
    await api.task(STARTED)
    await api.worker()
    api.answers = [broken()]
    terminal = Terminal(api)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.3)
    assert [line for line in terminal.said if "kubectl describe pod s-worker-0" in line] == terminal.said[1:]
    await api.say({**DONE, "phase": "WorkerLost"})
    with pytest.raises(click.ClickException, match="kubectl describe pod s-worker-0"):
        await following


OVER: dict[str, Any] = {
    "phase": "Pending", "reason": "SliceDeleted", "message": "attempt 1 is over", "attempt": 1, "endedAttempt": 1,
    "startTime": None,
    "attempts": [{"attempt": 1, "reason": "SliceDeleted", "message": "its slice is deleted"}],
}  # fmt: skip
AGAIN = {**OVER, **STARTED, "attempt": 2, "startTime": "2026-11-21T12:01:00Z"}


async def _second_attempt(api: Api) -> None:
    await api.say(OVER)
    await asyncio.sleep(0.05)
    place = {"attempt": 2, "nodeName": "m", "workerPod": "r-worker-0", "workerUid": "v"}
    await api.patch(TASKS, "t", {"spec": {"binding": place}}, namespace="default")
    await api.worker("r-worker-0")


async def test_following_goes_on_with_the_next_attempt(api: Api) -> None:
    await api.task(STARTED)
    await api.worker()
    api.answers = [Answer(b"one\n")]
    terminal = Terminal(api, tail=1)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.05)
    await api.patch(TASKS, "t", {"spec": {"binding": None}}, namespace="default")
    await api.say(OVER)
    await asyncio.sleep(0.1)
    assert terminal.said == ["waiting for Task t: Pending: SliceDeleted: attempt 1 is over"]
    terminal.out = b""
    await api.patch(TASKS, "t", {"spec": {"binding": BINDING}}, namespace="default")
    await _second_attempt(api)
    api.asked.clear()
    api.answers = [Answer(b"two\n"), Answer(offset=4)]
    await api.say({**AGAIN, **DONE, "attempt": 2})
    task = await following
    assert task is not None and task.status.exit_code == 0
    assert terminal.out == b"two\n"
    assert terminal.said[-1] == "attempt 1 lost: SliceDeleted: its slice is deleted; attempt 2 on node m"
    path, first = api.asked[0]
    assert (path, first["attempt"]) == (LOG, "2")
    assert "tail" not in first and "sinceBytes" not in first


async def test_a_worker_that_went_is_no_end_while_the_task_goes_on(api: Api) -> None:
    await api.task(STARTED)
    api.answers = [NotFoundError(404, "NotFound", 'pods "s-worker-0" not found')]
    terminal = Terminal(api)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.1)
    assert not following.done()
    assert len(terminal.said) == 1 and "its worker s-worker-0 is gone" in terminal.said[0]
    await _second_attempt(api)
    api.answers = [Answer(b"two\n"), Answer(offset=4)]
    await api.say(AGAIN)
    await asyncio.sleep(0.1)
    await api.say({**DONE, "attempt": 2})
    task = await following
    assert task is not None and terminal.out == b"two\n"
    assert terminal.said[-1].endswith("attempt 2 on node m")


async def test_deleted_between_two_attempts(api: Api) -> None:
    await api.task(STARTED)
    await api.worker()
    api.answers = [Answer(b"one\n")]
    following = asyncio.create_task(Terminal(api).stream.follow())
    await asyncio.sleep(0.05)
    await api.say(OVER)
    await asyncio.sleep(0.05)
    await api.delete(TASKS, "t", "default")
    assert await following is None


async def test_deleted_meanwhile(api: Api) -> None:
    await api.task(STARTED)
    await api.worker()
    api.answers = [Answer()]
    following = asyncio.create_task(Terminal(api).stream.follow())
    await asyncio.sleep(0.05)
    await api.delete(TASKS, "t", "default")
    assert await following is None


async def test_what_was_dropped_is_said_where_it_is_missing(api: Api) -> None:
    await api.task(STARTED)
    api.answers = [Answer(b"kept\n", offset=12 * 2**20)]
    terminal = Terminal(api)
    await terminal.stream.print()
    assert (terminal.out, terminal.said) == (b"kept\n", ["... 12.0 MiB dropped: logs.maxBytes"])


async def test_a_tail_lacks_nothing(api: Api) -> None:
    await api.task(STARTED)
    api.answers = [Answer(b"kept\n", offset=12 * 2**20)]
    terminal = Terminal(api, tail=1)
    await terminal.stream.print()
    assert terminal.said == []


async def test_dropped_while_it_is_followed(api: Api) -> None:
    """The agent ends the stream there; what is asked next begins later than was asked."""
    await api.task(STARTED)
    await api.worker()
    api.answers = [Answer(b"one\n"), Answer(b"late\n", offset=1028), Answer(offset=1033)]
    terminal = Terminal(api)
    following = asyncio.create_task(terminal.stream.follow())
    await asyncio.sleep(0.15)
    await api.say(DONE)
    await following
    assert terminal.out == b"one\nlate\n"
    assert terminal.said == ["... 1.0 KiB dropped: logs.maxBytes"]
