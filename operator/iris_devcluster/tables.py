"""The status as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from iris_devcluster.status import ClusterStatus, MachineStatus

_COLOURS = {"Ready": "green", "NotReady": "yellow", "Broken": "red", "PoweredOff": "dim"}


def print_status(status: ClusterStatus, console: Console | None = None) -> None:
    """One row per machine and per process, then what to do if something is wrong."""
    out = console or _console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("MACHINE", "ADDRESS", "PID", "STATE", "RESTARTS", "LAST EXIT"):
        table.add_column(column, no_wrap=column != "LAST EXIT")
    for machine in status.machines:
        _add_machine(table, machine)
    for one in status.services:
        table.add_row(one.name, "", str(one.pid or "-"), "running" if one.pid else "stopped", "", one.about)
    out.print(f"Cluster {status.name} at {status.server}, KUBECONFIG={status.kubeconfig}\n", soft_wrap=True)
    out.print(table)
    if len(status.machines) == 1:
        out.print("\nIt has no node yet. Go on with: iris-devcluster up")
    for machine in status.machines:
        if not machine.ok:
            out.print(f"\n{machine.name}: {machine.why}. Repair with: iris-devcluster up", soft_wrap=True)


def _console() -> Console:
    """As wide as the terminal; wide enough for every column where there is none."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=160)


def _add_machine(table: Table, machine: MachineStatus) -> None:
    colour = _COLOURS[machine.health]
    pid = str(machine.supervisor_pid or "-")
    table.add_row(machine.name, machine.address, pid, f"[{colour}]{machine.health}[/]", "", "")
    for one in machine.processes:
        table.add_row(f"  {one.name}", "", str(one.pid or "-"), one.state, str(one.restarts), one.last_exit)
