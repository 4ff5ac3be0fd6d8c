"""`iris`, also installed as `kubectl-iris`."""

from __future__ import annotations

import click

from iris_operator.cli.cp import cp
from iris_operator.cli.exec import exec_command
from iris_operator.cli.groups import groups
from iris_operator.cli.images import images
from iris_operator.cli.logs import logs
from iris_operator.cli.port_forward import port_forward
from iris_operator.cli.profiles import profile
from iris_operator.cli.record_trace import record_trace
from iris_operator.cli.run import run
from iris_operator.cli.simulate import simulate_command
from iris_operator.cli.slices import slices
from iris_operator.cli.status import status
from iris_operator.cli.top import top
from iris_operator.cli.why import why
from iris_operator.version import VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="iris")
def main() -> None:
    """Run work on rented GPU nodes, and see what becomes of it.

    Uses the same cluster as kubectl does; `kubectl iris ...` is the same program. Tasks, Slices and the rest are
    ordinary objects too: kubectl get iris.
    """


_COMMANDS = (
    run, logs, status, why, exec_command, cp, port_forward, top, profile, slices, groups, images, simulate_command, record_trace,
)  # fmt: skip
for command in _COMMANDS:
    main.add_command(command)
