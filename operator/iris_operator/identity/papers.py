"""The authority and the gateway's certificate as Secrets. Pure: bodies in and out."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from iris_operator.identity.authority import GATEWAY_LIFE, Authority
from iris_operator.identity.certificates import (
    BadPem,
    Pair,
    Subject,
    fits,
    issue,
    issued_by,
    serves,
    split,
    validity,
)
from iris_operator.identity.names import CA_SECRET, GATEWAY_SECRET, GATEWAY_USER, gateway_hosts
from iris_operator.ports.kube import Body

_CERTIFICATE, _KEY, _BUNDLE = "tls.crt", "tls.key", "ca.crt"
_COMING_CERTIFICATE, _COMING_KEY = "next.crt", "next.key"


def authority_secret(authority: Authority) -> dict[str, Any]:
    """The Secret that holds it."""
    data = {_CERTIFICATE: authority.current.certificate, _KEY: authority.current.key, _BUNDLE: authority.bundle}
    if authority.coming is not None:
        data |= {_COMING_CERTIFICATE: authority.coming.certificate, _COMING_KEY: authority.coming.key}
    return _secret(CA_SECRET, data, also_gone=(_COMING_CERTIFICATE, _COMING_KEY))


def read_authority(secret: Body) -> Authority:
    """BadPem when it holds none."""
    data = _data(secret)
    current = _pair(secret, data, _CERTIFICATE, _KEY)
    coming = _pair(secret, data, _COMING_CERTIFICATE, _COMING_KEY) if data.get(_COMING_KEY) else None
    trusted = tuple(split(data.get(_BUNDLE, b"")))
    return Authority(current, trusted or tuple(split(current.certificate)), coming)


def gateway_secret(authority: Authority, namespace: str, now: datetime) -> dict[str, Any]:
    """A new certificate of the gateway, for its Service and towards agents, with whom to trust."""
    subject = Subject(GATEWAY_USER, gateway_hosts(namespace))
    pair = issue(authority.current, subject, now, GATEWAY_LIFE, server=True, client=True)
    return _secret(GATEWAY_SECRET, {_CERTIFICATE: pair.certificate, _KEY: pair.key, _BUNDLE: authority.bundle})


def gateway_secret_is_good(secret: Body, authority: Authority, namespace: str, now: datetime) -> bool:
    """Whether it may stay as it is: young enough, for these names, by this authority, with these trusted."""
    try:
        pair, bundle = read_gateway(secret)
        return (
            bundle == authority.bundle
            and issued_by(pair.certificate, authority.current.certificate)
            and serves(pair.certificate, gateway_hosts(namespace))
            and now < validity(pair.certificate).renew_at
        )
    except BadPem:
        return False


def read_gateway(secret: Body) -> tuple[Pair, bytes]:
    """The gateway's certificate, and the bundle of whom it trusts. BadPem when there is none."""
    data = _data(secret)
    pair = _pair(secret, data, _CERTIFICATE, _KEY)
    if not split(data.get(_BUNDLE, b"")):
        raise BadPem(f"Secret {_name(secret)} has no {_BUNDLE}")
    return pair, data[_BUNDLE]


def _pair(secret: Body, data: Mapping[str, bytes], certificate: str, key: str) -> Pair:
    pair = Pair(data.get(certificate, b""), data.get(key, b""))
    try:
        good = fits(pair)
    except BadPem as error:
        raise BadPem(f"{certificate} and {key} of Secret {_name(secret)}: {error}") from error
    if not good:
        raise BadPem(f"{key} of Secret {_name(secret)} is not the key of its {certificate}")
    return pair


def _secret(name: str, data: Mapping[str, bytes], also_gone: tuple[str, ...] = ()) -> dict[str, Any]:
    encoded: dict[str, str | None] = dict.fromkeys(also_gone)
    encoded |= {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "iris"}},
        "type": "kubernetes.io/tls",
        "data": encoded,
    }


def _data(secret: Body) -> dict[str, bytes]:
    try:
        found = (secret.get("data") or {}).items()
        return {name: base64.b64decode(value or "", validate=True) for name, value in found}
    except (binascii.Error, ValueError) as error:
        raise BadPem(f"Secret {_name(secret)} holds something that is not base64") from error


def _name(secret: Body) -> str:
    return str(secret.get("metadata", {}).get("name", ""))
