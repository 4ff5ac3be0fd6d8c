"""What the API server and kubectl read about this API: discovery, and OpenAPI documents that say nothing more. Pure."""

from __future__ import annotations

from typing import Any

from iris_operator.api.streams import STREAM_API
from iris_operator.gateway.routes import SERVED
from iris_operator.identity.names import STREAM_GROUP, STREAM_VERSION

_GROUP_VERSION = f"{STREAM_GROUP}/{STREAM_VERSION}"


def documents() -> dict[str, dict[str, Any]]:
    """By path."""
    group_path = f"/apis/{STREAM_GROUP}"
    return {
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]},
        group_path: {"kind": "APIGroup", "apiVersion": "v1", **_group()},
        STREAM_API: {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": _GROUP_VERSION,
            "resources": [_resource(*which) for which in SERVED],
        },
        "/openapi/v2": {"swagger": "2.0", "info": {"title": _GROUP_VERSION, "version": STREAM_VERSION}, "paths": {}},
        "/openapi/v3": {"paths": {}},
    }


def _group() -> dict[str, Any]:
    version = {"groupVersion": _GROUP_VERSION, "version": STREAM_VERSION}
    return {"name": STREAM_GROUP, "versions": [version], "preferredVersion": version}


def _resource(resource: str, subresource: str) -> dict[str, Any]:
    # Subresources alone: a resource `tasks` here would make `kubectl get tasks` ambiguous.
    verbs = sorted(set(SERVED[resource, subresource].values()))
    return {
        "name": f"{resource}/{subresource}",
        "singularName": "",
        "namespaced": True,
        "kind": f"{resource.removesuffix('s').title()}{subresource.title()}",
        "verbs": verbs,
    }
