"""Who asks, as the API server has found it: the front proxy's headers, believed by its certificate. Pure.

The settings are those that the API server publishes for this, in ConfigMap extension-apiserver-authentication.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from iris_operator.ports.kube import Body

CONFIG_MAP = ("kube-system", "extension-apiserver-authentication")


class NoFrontProxy(Exception):
    """The cluster's API server says nothing usable about its front proxy; the message says what is missing."""


@dataclass(frozen=True)
class FrontProxy:
    """Whom to believe (`authority`: PEM; `names`: common names, empty: any), and how it says who the user is."""

    authority: bytes
    names: tuple[str, ...]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]
    uid_headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def front_proxy(config_map: Body) -> FrontProxy:
    """NoFrontProxy when aggregation isn't set up in this cluster."""
    data: Mapping[str, str] = config_map.get("data") or {}
    authority = data.get("requestheader-client-ca-file", "")
    if not authority.strip():
        where = "/".join(CONFIG_MAP)
        raise NoFrontProxy(f"ConfigMap {where} has no requestheader-client-ca-file: aggregation is off in this cluster")
    return FrontProxy(
        authority.encode(),
        _listed(data, "requestheader-allowed-names"),
        _listed(data, "requestheader-username-headers"),
        _listed(data, "requestheader-group-headers"),
        _listed(data, "requestheader-extra-headers-prefix"),
        _listed(data, "requestheader-uid-headers"),
    )


def user_of(proxy: FrontProxy, common_name: str, headers: Iterable[tuple[str, str]]) -> User | None:
    """Who asks, by a client whose certificate `proxy.authority` signed for `common_name`; None: nobody says so."""
    if not common_name or (proxy.names and common_name not in proxy.names):
        return None
    given = [(name.lower(), value) for name, value in headers]
    names = _values(given, proxy.user_headers)
    if not names:
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in given:
        for prefix in proxy.extra_prefixes:
            if name.startswith(prefix.lower()):
                key = unquote(name[len(prefix) :])
                extra[key] = (*extra.get(key, ()), value)
    uids = _values(given, proxy.uid_headers)
    return User(names[0], tuple(_values(given, proxy.group_headers)), uids[0] if uids else "", extra)


def _values(given: list[tuple[str, str]], wanted: tuple[str, ...]) -> list[str]:
    return [value for one in wanted for name, value in given if name == one.lower() and value]


def _listed(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    try:
        found = json.loads(data.get(key) or "[]")
    except json.JSONDecodeError as error:
        raise NoFrontProxy(f"{key} of ConfigMap {'/'.join(CONFIG_MAP)} is no JSON list") from error
    return tuple(str(one) for one in found)
