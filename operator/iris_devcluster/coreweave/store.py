"""The settings' ConfigMap: read, change, write, without losing what someone else changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from iris_devcluster.coreweave.kube import KubeClient, KubeError
from iris_devcluster.coreweave.settings import CONFIG_MAP, KEY, NAMESPACE, parse

PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
OPERATIONS = ("create", "update", "delete")
_ATTEMPTS = 10


@dataclass
class Document:
    """The ConfigMap's content, mutable on purpose: changes are functions on it."""

    settings: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, set[str]] = field(default_factory=dict)
    """Operation on NodePools (create, update, delete) -> names, "*" for all."""

    @classmethod
    def from_api(cls, body: Mapping[str, Any] | None) -> Document:
        """From the API server's JSON; empty when there is none."""
        data = (body or {}).get("data") or {}
        refusals = {
            operation: set(filter(None, data.get(f"refuse-{operation}", "").split(","))) for operation in OPERATIONS
        }
        return cls(yaml.safe_load(data.get(KEY, "")) or {}, {key: names for key, names in refusals.items() if names})

    def to_data(self) -> dict[str, str]:
        """The ConfigMap's `data`; raises SettingsError before anything wrong is written."""
        parse(self.settings)
        settings = {key: value for key, value in self.settings.items() if value != {}}
        data = {KEY: yaml.safe_dump(settings, sort_keys=True)} if settings else {}
        return data | {f"refuse-{key}": ",".join(sorted(names)) for key, names in self.refusals.items() if names}

    def layer(self, key: str, name: str = "") -> dict[str, Any]:
        """The mapping to change: `defaults`, or one of `instanceTypes`, `nodePools`, `nodes`."""
        rows: dict[str, Any] = self.settings.setdefault(key, {})
        return rows if not name else rows.setdefault(name, {})

    def drop_faults(self, name: str = "") -> None:
        """Forget the faults of a NodePool or node, or of all."""
        for key in ("nodePools", "nodes"):
            rows = self.settings.get(key) or {}
            self.settings[key] = {other: row for other, row in rows.items() if name and other != name}
            if not self.settings[key]:
                del self.settings[key]
        for names in self.refusals.values():
            names -= {name} if name else set(names)


async def read(kube: KubeClient) -> Document:
    """As it is now."""
    return Document.from_api(await kube.get(PATH))


async def change(kube: KubeClient, edit: Callable[[Document], None]) -> Document:
    """Apply `edit` to what is there and write it; again when someone else wrote in between."""
    for _ in range(_ATTEMPTS):
        body = await kube.get(PATH)
        document = Document.from_api(body)
        edit(document)
        metadata = (body or {}).get("metadata") or {"name": CONFIG_MAP, "namespace": NAMESPACE}
        new = {"metadata": metadata, "data": document.to_data()}
        try:
            if body is None:
                await kube.create(PATH.rpartition("/")[0], new)
            else:
                await kube.put(PATH, new)
        except KubeError as error:
            if error.status != 409:
                raise
        else:
            return document
    raise KubeError(409, f"ConfigMap {CONFIG_MAP} changes all the time; try again")
