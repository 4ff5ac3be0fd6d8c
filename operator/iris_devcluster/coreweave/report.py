"""`cloud status`: what the simulated CoreWeave does now, as data and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from iris_devcluster.coreweave import inventory, service, store
from iris_devcluster.coreweave.controller.apply import NODES, POOLS
from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.model import Machine

CONDITIONS = ("Validated", "Capacity", "Quota", "AtTarget")


async def gather(kube: KubeClient, root: Path) -> dict[str, Any]:
    """Everything, ready for JSON."""
    process = service.state(root)
    document = await store.read(kube)
    machines = inventory.parse(await kube.get(inventory.PATH))
    nodes = {node["metadata"]["name"]: node for node in (await kube.request("GET", NODES))["items"]}
    return {
        "controller": {"running": process.running, "pid": process.controller, "log": str(process.log)},
        "settings": document.settings,
        "refusals": {key: sorted(names) for key, names in document.refusals.items()},
        "nodePools": [_pool(body) for body in await _pools(kube)],
        "machines": [_machine(machine, nodes.get(name)) for name, machine in sorted(machines.items())],
    }


async def _pools(kube: KubeClient) -> list[Mapping[str, Any]]:
    try:
        return list((await kube.request("GET", POOLS))["items"])
    except KubeError as error:
        if error.status == 404:  # never started here
            return []
        raise


def _pool(body: Mapping[str, Any]) -> dict[str, Any]:
    spec, status = body["spec"], body.get("status") or {}
    reasons = {row["type"]: row.get("reason", "") for row in status.get("conditions") or []}
    return {
        "name": body["metadata"]["name"],
        "instanceType": spec["instanceType"],
        "target": spec.get("targetNodes", spec.get("targetRacks")),
        "current": status.get("currentNodes", 0),
        "inProgress": status.get("inProgress", 0),
        "queued": status.get("queuedNodes", 0),
        "deleting": "deletionTimestamp" in body["metadata"],
        "conditions": {kind: reasons.get(kind, "") for kind in CONDITIONS},
    }


def _machine(machine: Machine, node: Mapping[str, Any] | None) -> dict[str, Any]:
    status = (node or {}).get("status") or {}
    ready = next((row["status"] for row in status.get("conditions") or [] if row["type"] == "Ready"), "")
    return {
        "name": machine.name,
        "pool": machine.pool,
        "power": str(machine.power),
        "ready": ready,
        "releasing": machine.releasing,
        "gpus": int((status.get("allocatable") or {}).get("nvidia.com/gpu", 0)),
        "assignedSeconds": int((datetime.now(UTC) - machine.assigned_at).total_seconds()),
    }


def show(data: Mapping[str, Any], console: Console) -> None:
    """For a person."""
    process = data["controller"]
    running = f"runs (pid {process['pid']})" if process["running"] else "does not run: iris-devcluster cloud start"
    console.print(f"Simulated CoreWeave {running}, log {process['log']}", highlight=False, soft_wrap=True)
    for name, value in data["settings"].items():
        console.print(f"  {name}: {value}", highlight=False, markup=False)
    for operation, names in data["refusals"].items():
        console.print(f"  refuses to {operation}: {', '.join(names)}", highlight=False, markup=False)
    _table(
        console,
        ["NODEPOOL", "TYPE", "TARGET", "CURRENT", "IN PROGRESS", "QUEUED", *(kind.upper() for kind in CONDITIONS)],
        [
            [row[key] for key in ("name", "instanceType", "target", "current", "inProgress", "queued")]
            + list(row["conditions"].values())
            for row in data["nodePools"]
        ],
    )
    _table(
        console,
        ["MACHINE", "NODEPOOL", "POWER", "READY", "GPUS", "ASSIGNED"],
        [
            [row[key] for key in ("name", "pool", "power", "ready", "gpus")] + [f"{row['assignedSeconds']}s ago"]
            for row in data["machines"]
        ],
    )


def _table(console: Console, head: list[str], rows: list[list[Any]]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="")
    for column in head:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
