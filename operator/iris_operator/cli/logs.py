"""`iris logs`."""

from __future__ import annotations

import sys

import click

from iris_operator.cli.log_stream import LogStream, state_line
from iris_operator.cli.session import Target, run_async, session, target_options


@click.command()
@click.argument("task")
@click.option("-f", "--follow", is_flag=True, help="Wait for the start, then go on until the end.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines (and what follows).")
@target_options
def logs(
    task: str, follow: bool, tail: int | None, namespace: str | None, kubeconfig: str | None, context: str | None
) -> None:
    """Print what TASK has written: standard output and error, as they came.

    The log is read from the Task's node through the API server. It is kept until the Task is deleted.

    \b
      iris logs hello           what there is now
      iris logs hello -f        from its start to its end
      iris logs hello --tail 20
    """
    run_async(_logs(task, follow, tail, Target(kubeconfig, context, namespace)))


async def _logs(name: str, follow: bool, tail: int | None, target: Target) -> None:
    async with session(target) as found:
        stream = LogStream(found, name.removeprefix("task/"), to_stdout, to_stderr)
        if not follow:
            await stream.print(tail)
            return
        task = await stream.follow(tail)
        if task is None:
            raise click.ClickException(f"Task {name} was deleted")
        if task.status.start_time is None:
            raise click.ClickException(f"Task {name} never started: {state_line(task)}")


def to_stdout(chunk: bytes) -> None:
    """Bytes as they are, at once."""
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def to_stderr(line: str) -> None:
    """A word to the person, apart from the log."""
    click.echo(line, err=True)
