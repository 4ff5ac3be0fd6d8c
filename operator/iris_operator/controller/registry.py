"""kopf's side: which resources are watched, and its settings. Handlers only tell the Controller what was seen."""

from __future__ import annotations

from typing import Any

import kopf

from iris_operator.controller.cache import MODELS
from iris_operator.controller.engine import SELECTED
from iris_operator.controller.memo import Controller
from iris_operator.ports.kube import Kind


def build_registry(controller: Controller) -> kopf.OperatorRegistry:
    """An explicit registry with one event handler per kind."""
    registry = kopf.OperatorRegistry()
    for kind in MODELS:
        _watch(registry, kind, controller)
    return registry


def _watch(registry: kopf.OperatorRegistry, kind: Kind, controller: Controller) -> None:
    group, _, version = kind.api_version.rpartition("/")
    selector = SELECTED.get(kind)
    labels: dict[str, Any] | None = None
    if selector:
        name, _, value = selector.partition("=")
        labels = {name: value}

    @kopf.on.event(group, version, kind.plural, registry=registry, id=f"observe-{kind.plural}", labels=labels)
    async def observe(event: kopf.RawEvent, **_: Any) -> None:
        controller.observe(kind, event["object"], gone=event["type"] == "DELETED")


def build_settings() -> kopf.OperatorSettings:
    """No annotations, no kopf finalizers, no peering, no events: kopf only watches."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 5.0
    settings.watching.connect_timeout = 5.0
    settings.watching.server_timeout = 300  # kopf sends it as it is, and the API wants an integer
    settings.execution.default_backoff = 5.0
    settings.persistence.consistency_timeout = 0.0  # we patch past kopf; it must not wait for its own patches
    return settings
