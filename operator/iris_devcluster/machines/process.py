"""A program under a machine's supervisor, as a file in the machine's `processes` folder describes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One supervised program.

    `wait_for`: it starts when this path (inside the machine) exists, or `tcp:<address>:<port>` accepts connections.
    `once`: run until it succeeds, then never again; otherwise it is restarted a second after any exit, as systemd's
    Restart=always does.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    wait_for: str = ""
    once: bool = False

    def save(self, folder: Path) -> None:
        """Write it where the supervisor looks; atomically, as that may look at any time."""
        partial = folder / f".{self.name}"
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(folder / f"{self.name}.json")


def load_all(folder: Path) -> dict[str, Process]:
    """Every process described in the folder, by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError:
            continue  # taken away since the glob
        found[path.stem] = Process(**{**data, "argv": tuple(data["argv"])})
    return found
