"""The Kubernetes API in memory: what ports.kube promises, with faults on command.

Not here: schemas and their defaults, admission, RBAC, field ownership. Objects are copied in and out.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from iris_operator.adapters.fakes.selection import matches
from iris_operator.adapters.kube.merge import apply_merge_patch
from iris_operator.ports.errors import ConflictError, GoneError, InvalidError, NotFoundError, UnavailableError
from iris_operator.ports.kube import CONFIG_MAPS, EVENTS, LEASES, PODS, SECRETS, Body, Kind, Listing, WatchEvent

_NO_STATUS = {SECRETS, CONFIG_MAPS, LEASES, EVENTS}
_POD_GRACE_SECONDS = 30

Key = tuple[str, str]


@dataclass(frozen=True)
class _Change:
    """One write: the object before (None: new) and after it (None: gone)."""

    version: int
    kind: Kind
    namespace: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class FakeKube:
    """Satisfies ports.kube.KubeApi. Single event loop; every write is one step."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, str]] = []  # (verb, plural[/subresource], name), refused ones too
        self._objects: dict[Kind, dict[Key, dict[str, Any]]] = {}
        self._changes: list[_Change] = []
        self._compacted = 0
        self._version = 1
        self._down = False
        self._news = asyncio.Condition()

    async def set_down(self, down: bool) -> None:
        """Stop answering, and break the watches; or answer again."""
        self._down = down
        await self._tell()

    def compact(self) -> None:
        """Forget history: watches from an older version are refused as Gone."""
        self._changes.clear()
        self._compacted = self._version

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        self._check()
        return copy.deepcopy(self._find(kind, name, namespace))

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        self._check()
        found = [
            copy.deepcopy(body)
            for (where, _), body in sorted(self._objects.get(kind, {}).items())
            if namespace in (None, where) and matches(body, labels, fields)
        ]
        return Listing(found, str(self._version))

    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        seen = int(resource_version)
        while True:
            self._check()
            if seen < self._compacted:
                raise GoneError(410, "Expired", f"too old resource version: {seen} ({self._compacted})")
            for change in [one for one in self._changes if one.version > seen]:
                seen = change.version
                if change.kind == kind and namespace in (None, change.namespace):
                    event = _event(change, labels, fields)
                    if event is not None:
                        yield event
            async with self._news:
                while not self._down and self._version <= seen:
                    await self._news.wait()

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        made = copy.deepcopy(dict(body))
        metadata = made.setdefault("metadata", {})
        if "name" not in metadata and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        self._count("create", kind, metadata.get("name", ""))
        where = self._where(kind, namespace)
        if (where, metadata["name"]) in self._objects.get(kind, {}):
            raise ConflictError(409, "AlreadyExists", f'{kind.plural} "{metadata["name"]}" already exists')
        if where:
            metadata["namespace"] = where
        for name in ("annotations", "labels"):
            metadata[name] = {key: value for key, value in (metadata.get(name) or {}).items() if value is not None}
        metadata |= {"uid": str(uuid.uuid4()), "generation": 1, "creationTimestamp": _time(datetime.now(UTC))}
        made.setdefault("apiVersion", kind.api_version)
        if kind not in _NO_STATUS:
            made.pop("status", None)
        return await self._store(kind, None, made)

    async def apply(self, kind: Kind, body: Body, *, manager: str, namespace: str | None = None) -> dict[str, Any]:
        name = body["metadata"]["name"]
        try:
            before = self._find(kind, name, namespace)
        except NotFoundError:
            return await self.create(kind, body, namespace)
        self._count("apply", kind, name)
        return await self._store(kind, before, _main(kind, before, apply_merge_patch(before, body)))

    async def patch(
        self, kind: Kind, name: str, patch: Body, *, namespace: str | None = None, subresource: str = ""
    ) -> dict[str, Any]:
        self._count("patch", kind, name, subresource)
        before = self._find(kind, name, namespace)
        merged = apply_merge_patch(before, patch)
        if merged["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", f'{kind.plural} "{name}" has been modified')
        if subresource in ("status", "approval"):  # of a certificate request, which has its verdict in its status
            return await self._store(kind, before, {**before, "status": merged.get("status", {})})
        if merged["metadata"]["uid"] != before["metadata"]["uid"]:
            raise InvalidError(422, "Invalid", "metadata.uid: field is immutable")
        return await self._store(kind, before, _main(kind, before, merged))

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        self._count("delete", kind, name)
        before = self._find(kind, name, namespace)
        if uid and uid != before["metadata"]["uid"]:
            raise ConflictError(409, "Conflict", f"the UID in the precondition ({uid}) is not the object's")
        if resource_version and resource_version != before["metadata"]["resourceVersion"]:
            words = f"the resourceVersion in the precondition ({resource_version}) is not the object's"
            raise ConflictError(409, "Conflict", words)
        grace = _grace(kind, before, grace_seconds)
        if not before["metadata"].get("finalizers") and not grace:
            await self._store(kind, before, None)
        elif not before["metadata"].get("deletionTimestamp"):
            after = copy.deepcopy(before)
            end = datetime.now(UTC) + timedelta(seconds=grace)
            after["metadata"] |= {"deletionTimestamp": _time(end), "deletionGracePeriodSeconds": grace}
            after["metadata"]["generation"] += 1
            await self._store(kind, before, after)

    def _check(self) -> None:
        if self._down:
            raise UnavailableError(0, "Unreachable", "the fake API server is switched off")

    def _count(self, verb: str, kind: Kind, name: str, subresource: str = "") -> None:
        self.writes.append((verb, f"{kind.plural}/{subresource}" if subresource else kind.plural, name))
        self._check()

    def _where(self, kind: Kind, namespace: str | None) -> str:
        return (namespace or "default") if kind.namespaced else ""

    def _find(self, kind: Kind, name: str, namespace: str | None) -> dict[str, Any]:
        self._check()
        try:
            return self._objects[kind][self._where(kind, namespace), name]
        except KeyError:
            raise NotFoundError(404, "NotFound", f'{kind.plural} "{name}" not found') from None

    async def _store(self, kind: Kind, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
        """Write; the answer. An object whose deletion nothing holds any more goes."""
        if before is not None and after == before:
            return copy.deepcopy(before)  # no change, no new version
        self._version += 1
        found = after or before or {}
        metadata = {**found["metadata"], "resourceVersion": str(self._version)}
        stored = {**copy.deepcopy(found), "metadata": metadata}
        key = (metadata.get("namespace", ""), metadata["name"])
        finished = bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers") and kind != PODS
        gone = after is None or finished
        if gone:
            self._objects[kind].pop(key, None)
        else:
            self._objects.setdefault(kind, {})[key] = stored
        self._changes.append(
            _Change(self._version, kind, key[0], before if not gone else stored, None if gone else stored)
        )
        await self._tell()
        return copy.deepcopy(stored)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


def _main(kind: Kind, before: dict[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    """A write of the main resource: status stays, the generation counts changes of the spec."""
    kept = {} if kind in _NO_STATUS or "status" not in before else {"status": before["status"]}
    after = {**{name: value for name, value in merged.items() if kind in _NO_STATUS or name != "status"}, **kept}
    immutable = ("uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion")
    own = {name: before["metadata"][name] for name in immutable if name in before["metadata"]}
    after["metadata"] = {**merged["metadata"], **own}
    if after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] += 1
    return after


def _grace(kind: Kind, body: Body, wanted: int | None) -> int:
    """Only Pods on a node have one: everything else goes when its finalizers do."""
    if kind != PODS or not body.get("spec", {}).get("nodeName"):
        return 0
    return int(body["spec"].get("terminationGracePeriodSeconds", _POD_GRACE_SECONDS)) if wanted is None else wanted


def _event(change: _Change, labels: str, fields: str) -> WatchEvent | None:
    was = change.before is not None and matches(change.before, labels, fields)
    is_now = change.after is not None and matches(change.after, labels, fields)
    if not was and not is_now:
        return None
    kind: Literal["ADDED", "MODIFIED", "DELETED"] = "DELETED" if not is_now else "MODIFIED" if was else "ADDED"
    body = copy.deepcopy((change.after if is_now else change.before) or {})
    # A body that is no longer selected is the one from before, at the version of its going.
    body["metadata"]["resourceVersion"] = str(change.version)
    return WatchEvent(kind, body)


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
