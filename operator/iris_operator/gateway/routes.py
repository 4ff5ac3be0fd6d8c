"""What is served, and what of it a request asks for. Pure: method and path -> Ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iris_operator.api.streams import STREAM_API
from iris_operator.gateway.answers import Refusal

Verb = Literal["get", "create", "delete"]

# By resource and subresource: the right that each method needs. What acts through a WebSocket, a GET, needs create.
SERVED: Mapping[tuple[str, str], Mapping[str, Verb]] = {
    ("tasks", "log"): {"GET": "get"},
    ("tasks", "exec"): {"GET": "create", "POST": "create"},
    ("tasks", "portforward"): {"GET": "create", "POST": "create"},
    ("tasks", "stats"): {"GET": "get"},
    ("tasks", "profile"): {"POST": "create"},
    ("slices", "stats"): {"GET": "get"},
    ("slices", "images"): {"GET": "get", "POST": "create", "DELETE": "delete"},
}

_PATH = re.compile(
    rf"{re.escape(STREAM_API)}/namespaces/([a-z0-9-]{{1,63}})/([a-z]+)/([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?)/([a-z]+)"
)


@dataclass(frozen=True)
class Ask:
    """One request: the right it needs, on what."""

    verb: Verb
    resource: str
    subresource: str
    namespace: str
    name: str


def parse(method: str, path: str) -> Ask | Refusal:
    """`path` is decoded, without its query. Refused with 404 when nothing is served there, 405 with another method."""
    found = _PATH.fullmatch(path)
    if found is None:
        return Refusal(404, "NotFound", "the server could not find the requested resource")
    namespace, resource, name, subresource = found.group(1, 2, 3, 5)
    methods = SERVED.get((resource, subresource))
    if methods is None:
        return Refusal(404, "NotFound", f"{resource}/{subresource} is not served here")
    verb = methods.get(method)
    if verb is None:
        return Refusal(405, "MethodNotAllowed", f"{resource}/{subresource} takes {', '.join(methods)}, not {method}")
    return Ask(verb, resource, subresource, namespace, name)
