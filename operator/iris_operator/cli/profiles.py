"""`iris profile`."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import click

from iris_operator.api.streams import task_stream
from iris_operator.cli.session import Target, run_async, session, target_options
from iris_operator.cli.task_exec import no_task
from iris_operator.ports.errors import ApiError

_MOST_SECONDS = 45


@click.command()
@click.argument("task")
@click.option(
    "--seconds", type=click.IntRange(1, _MOST_SECONDS), default=10, show_default=True, help="How long to look."
)
@click.option("-o", "--output", default="", metavar="FILE", help="Where the picture goes. Default: TASK.svg")
@click.option("--threads", is_flag=True, help="Tell threads apart.")
@click.option("--idle", is_flag=True, help="Count threads that only wait too.")
@target_options
def profile(
    task: str, seconds: int, output: str, threads: bool, idle: bool,
    namespace: str | None, kubeconfig: str | None, context: str | None,
) -> None:  # fmt: skip
    """Draw where the Python programs of a running TASK spend their time: a flame graph (SVG, for a browser).

    py-spy looks at them a hundred times a second from beside them: nothing has to be built in, and they hardly slow down.
    It is copied into the Task for that time; the Task's image must have sh. Memory is not profiled: memray has to be in
    the program from its start. For that, run the command under it: memray run -o /work/out.bin train.py

    \b
      iris profile train --seconds 30 -o train.svg
    """
    name = task.removeprefix("task/")
    run_async(
        _profile(name, seconds, Path(output or f"{name}.svg"), threads, idle, Target(kubeconfig, context, namespace))
    )


async def _profile(name: str, seconds: int, output: Path, threads: bool, idle: bool, target: Target) -> None:
    params = {
        "kind": "cpu",
        "seconds": str(seconds),
        **({"threads": "1"} if threads else {}),
        **({"idle": "1"} if idle else {}),
    }
    async with session(target) as found:
        path = task_stream(found.namespace, name, "profile")
        try:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            async with found.api.open("POST", path, params=params, timeout=timeout) as response:
                picture = await response.read()
        except ApiError as error:
            raise no_task(error, name, found.namespace) from error
    try:
        output.write_bytes(picture)  # noqa: ASYNC240 nothing else waits
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from error
    click.echo(f"{output}: {seconds} s of Task {name}")
