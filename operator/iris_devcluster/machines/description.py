"""What a machine is, as its directory says it to the supervisor."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Description:
    """`cgroup` is its group in every hierarchy; `binds` and `files` map paths inside to paths outside and content."""

    cgroup: str
    hostname: str
    binds: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)

    def save(self, directory: Path) -> None:
        """Private to root: files hold keys."""
        path = directory / "machine.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, directory: Path) -> Description:
        return cls(**json.loads((directory / "machine.json").read_text()))
