"""`iris`, also installed as `kubectl-iris`."""

from __future__ import annotations

from importlib import import_module

import click

from iris_operator.version import VERSION

# Name -> module and attribute, in the order that --help shows. Each is imported when it is asked for: all of them together
# cost a second of a slow machine.
_COMMANDS = {
    "run": "run:run",
    "logs": "logs:logs",
    "status": "status:status",
    "why": "why:why",
    "exec": "exec:exec_command",
    "cp": "cp:cp",
    "port-forward": "port_forward:port_forward",
    "top": "top:top",
    "profile": "profiles:profile",
    "slice": "slices:slices",
    "group": "groups:groups",
    "images": "images:images",
    "simulate": "simulate:simulate_command",
    "record-trace": "record_trace:record_trace",
}


class _Commands(click.Group):
    """The commands, by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        found: click.Command = getattr(import_module(f"iris_operator.cli.{module}"), attribute)
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="iris")
def main() -> None:
    """Run work on rented GPU nodes, and see what becomes of it.

    Uses the same cluster as kubectl does; `kubectl iris ...` is the same program. Tasks, Slices and the rest are
    ordinary objects too: kubectl get iris.
    """
