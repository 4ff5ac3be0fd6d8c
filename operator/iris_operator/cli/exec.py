"""`iris exec`."""

from __future__ import annotations

import sys

import click

from iris_operator.api.names import member_name
from iris_operator.cli.session import Target, run_async, session, target_options
from iris_operator.cli.task_exec import Request, Screen, execute, no_task
from iris_operator.cli.terminal import keys, raw_mode, size, sizes, to_standard_streams
from iris_operator.ports.errors import ApiError


@click.command("exec")
@click.argument("task")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal: for shells and editors, with -i.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="In this member of a Task of several replicas.")
@click.option("-w", "--workdir", default="", metavar="DIR", help="Directory to run it in. Default: the Task's.")
@target_options
def exec_command(
    task: str, command: tuple[str, ...], stdin: bool, tty: bool, rank: int | None, workdir: str,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Run COMMAND in the container of a running TASK, as the Task's own command runs; its exit code is ours.

    Write -- before it, so that its options are its own. It is not run in a shell; name one if you want one. When the
    connection breaks or you press Ctrl-C (without -t), the command is ended.

    \b
      iris exec hello -- ls -l /
      iris exec hello -it -- bash
      iris exec hello -i -- sh -c 'cat > /tmp/x' < x
      iris exec train --rank 1 -- nvidia-smi
    """
    name = task.removeprefix("task/")
    name = name if rank is None else member_name(name, rank)
    code = run_async(_exec(name, command, stdin, tty, workdir, Target(kubeconfig, context, namespace)))
    raise SystemExit(code)


async def _exec(name: str, command: tuple[str, ...], stdin: bool, tty: bool, workdir: str, target: Target) -> int:
    if tty and not sys.stdin.isatty():
        click.echo("standard input is no terminal: the command gets none (-t is left out)", err=True)
        tty = False
    source = keys(sys.stdin.fileno()) if stdin else None
    request = Request(command, source, Screen(size, sizes) if tty else None, workdir)
    async with session(target) as found:
        try:
            if not (tty and stdin):
                return await execute(found, name, request, to_standard_streams)
            with raw_mode(sys.stdin.fileno()):
                return await execute(found, name, request, to_standard_streams)
        except ApiError as error:
            raise no_task(error, name, found.namespace) from error
