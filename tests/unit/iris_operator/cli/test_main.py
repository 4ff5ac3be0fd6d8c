"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys

import click
from click.testing import CliRunner

from iris_operator.cli.main import main


def test_every_command_goes_by_its_own_name_and_tells_what_it_does() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None and command.name == name
        assert command.get_short_help_str()


def test_what_is_no_command_is_said() -> None:
    done = CliRunner().invoke(main, ["lgos"])
    assert (done.exit_code, "No such command 'lgos'" in done.output) == (2, True)


def test_a_command_brings_only_what_it_needs() -> None:
    """Or each `iris logs` pays for the simulator."""
    code = (
        "import sys; from iris_operator.cli.main import main; main(['logs', '--help'], standalone_mode=False); "
        "print(sorted(one for one in sys.modules if one.startswith('iris_operator.simulation')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
