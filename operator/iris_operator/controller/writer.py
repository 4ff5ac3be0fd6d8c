"""All writes of the operator. Each answer goes into the cache at once, so that the next plan sees it."""

from __future__ import annotations

import logging
from typing import Any

from iris_operator.adapters.kube.merge import merge_patch
from iris_operator.api.base import Model, Resource
from iris_operator.api.names import FIELD_MANAGER
from iris_operator.controller.memo import Controller
from iris_operator.plan.actions import Note
from iris_operator.ports.errors import ApiError, NotFoundError
from iris_operator.ports.kube import EVENTS, Body, Kind

log = logging.getLogger(__name__)


class Writer:
    """Calls raise ports.errors.ApiError; deleting what is gone is success."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def status(self, kind: Kind, target: Resource, before: Model, after: Model) -> None:
        """One merge patch of /status, or none when nothing changed; ConflictError when `target` is not the newest.

        The version guards against an agent that spoke meanwhile (the API server ignores a uid in a status patch).
        """
        patch = merge_patch(before.stated(), after.stated())
        if patch is not None:
            body = {"metadata": {"resourceVersion": target.metadata.resource_version}, "status": patch}
            await self._patch(kind, target, body, "status")

    async def status_of(self, kind: Kind, target: Resource, status: Body, subresource: str = "status") -> None:
        """A patch of the status by one of its subresources, only if the object is still the version we saw."""
        body = {"metadata": {"resourceVersion": target.metadata.resource_version}, "status": status}
        await self._patch(kind, target, body, subresource)

    async def metadata(self, kind: Kind, target: Resource, patch: Body, spec: Body | None = None) -> None:
        """A patch of metadata (and spec), only if the object is still the version we saw."""
        body: dict[str, Any] = {"metadata": {**patch, "resourceVersion": target.metadata.resource_version}}
        if spec is not None:
            body["spec"] = spec
        await self._patch(kind, target, body)

    async def add_finalizer(self, kind: Kind, target: Resource, finalizer: str) -> None:
        """Put our finalizer on."""
        await self.metadata(kind, target, {"finalizers": [*target.metadata.finalizers, finalizer]})

    async def remove_finalizer(self, kind: Kind, target: Resource, finalizer: str) -> None:
        """Take our finalizer off; the object may vanish with it."""
        left = [one for one in target.metadata.finalizers if one != finalizer]
        try:
            await self.metadata(kind, target, {"finalizers": left})
        except NotFoundError:
            log.debug("%s %s is gone already", kind.plural, target.key)

    async def apply(self, kind: Kind, body: Body, namespace: str | None = None) -> None:
        """Server-side apply as the operator."""
        self._count("apply", kind)
        answer = await self._controller.api.apply(kind, body, manager=FIELD_MANAGER, namespace=namespace)
        self._controller.observe(kind, answer)

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> None:
        """Make an object."""
        self._count("create", kind)
        self._controller.observe(kind, await self._controller.api.create(kind, body, namespace))

    async def delete(
        self, kind: Kind, target: Resource, grace_seconds: int | None = None, *, unchanged: bool = False
    ) -> None:
        """Ask for the deletion of this very object; if `unchanged`, only as long as it is the version we saw."""
        self._count("delete", kind)
        meta = target.metadata
        try:
            await self._controller.api.delete(
                kind,
                meta.name,
                meta.namespace or None,
                uid=meta.uid,
                grace_seconds=grace_seconds,
                resource_version=meta.resource_version if unchanged else "",
            )
        except NotFoundError:
            # Perhaps no watch will tell: whoever waits for its end must hear of it from here.
            body = {"metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}}
            self._controller.observe(kind, body, gone=True)

    async def event(self, kind: Kind, target: Resource, note: Note) -> None:
        """Post an Event; that one is lost is only logged."""
        now = self._controller.now()
        namespace = target.metadata.namespace or "default"
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"generateName": f"{target.metadata.name[:50]}-", "namespace": namespace},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "iris.dev/operator",
            "reportingInstance": FIELD_MANAGER,
            "action": "Reconcile",
            "type": note.type,
            "reason": note.reason,
            "note": note.message[:1000],
            "regarding": {
                "apiVersion": target.api_version,
                "kind": target.KIND,
                "name": target.metadata.name,
                "namespace": target.metadata.namespace,
                "uid": target.metadata.uid,
            },
        }
        self._count("create", EVENTS)
        try:
            await self._controller.api.create(EVENTS, body, namespace)
        except ApiError as error:
            log.warning("Event %s of %s %s was not posted: %s", note.reason, kind.plural, target.key, error)

    async def _patch(self, kind: Kind, target: Resource, body: Body, subresource: str = "") -> None:
        self._count(f"patch/{subresource}" if subresource else "patch", kind)
        answer = await self._controller.api.patch(
            kind, target.metadata.name, body, namespace=target.metadata.namespace or None, subresource=subresource
        )
        self._controller.observe(kind, answer, gone=_was_the_last(answer))

    def _count(self, verb: str, kind: Kind) -> None:
        self._controller.writes[f"{verb} {kind.plural}"] += 1


def _was_the_last(answer: Body) -> bool:
    """Whether the object went with this write: deleted, its grace over, and held by nobody any more.

    The watch may not tell: before it has begun, an object that is missing from its first list was never there for it.
    """
    meta = answer["metadata"]
    held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
    return bool(meta.get("deletionTimestamp")) and not held
