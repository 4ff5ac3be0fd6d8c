"""Pull secrets (kubernetes.io/dockerconfigjson): which of their credentials fit an image. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from iris_operator.ports.kube import Body
from iris_runtimes.protocol import Credentials

_TYPE = "kubernetes.io/dockerconfigjson"
_KEY = ".dockerconfigjson"


class BadSecret(Exception):
    """A Secret that can't be used; the message says what is wrong with it."""


def registry_of(image: str, default_registry: str = "") -> str:
    """Host (and port) of the registry an image comes from; empty when neither the image nor the default names one."""
    first, slash, _ = image.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if named else default_registry


def credentials_for(image: str, secrets: Iterable[Body], default_registry: str = "") -> list[Credentials]:
    """All that fit the image, the most specific entry of each Secret first, in the Secrets' order. Raises BadSecret."""
    registry = registry_of(image, default_registry)
    path = _repository(image if image.startswith(f"{registry}/") else f"{registry}/{image}")
    found: list[Credentials] = []
    for secret in secrets:
        entries = _entries(secret)
        fitting = sorted((key for key in entries if _fits(_plain(key), path)), key=lambda key: -len(_plain(key)))
        found += [_credentials(secret, entries[key]) for key in fitting]
    return found


def _repository(image: str) -> str:
    """Without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _plain(key: str) -> str:
    """A config's key without scheme and API version: `https://host/v1/` -> `host`."""
    bare = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    return bare.removesuffix("/v1").removesuffix("/v2")


def _fits(key: str, path: str) -> bool:
    return path == key or path.startswith(f"{key}/")


def _entries(secret: Body) -> Mapping[str, Any]:
    name = secret["metadata"]["name"]
    if secret.get("type") != _TYPE:
        raise BadSecret(f"Secret {name} is of type {secret.get('type')}, not {_TYPE}")
    try:
        config = json.loads(base64.b64decode((secret.get("data") or {})[_KEY]))
        auths: Mapping[str, Any] = config["auths"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadSecret(f"Secret {name}: its {_KEY} is not a Docker configuration with auths") from error
    return auths


def _credentials(secret: Body, entry: Mapping[str, Any]) -> Credentials:
    if entry.get("username"):
        return Credentials(str(entry["username"]), str(entry.get("password", "")))
    try:
        username, _, password = base64.b64decode(str(entry.get("auth", "")), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadSecret(f"Secret {secret['metadata']['name']}: an auth entry is not base64") from error
    return Credentials(username, password)
