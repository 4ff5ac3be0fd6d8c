"""Kubeconfig files with plain credentials: tokens and certificates. The rest (exec plugins ...) is the big loader's.

Its import takes 1.6 s, which a command line that is asked for one line should not.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PLAIN_CLUSTER = {
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "extensions",
}
_PLAIN_USER = {
    "token",
    "tokenFile",
    *(f"client-{one}{form}" for one in ("certificate", "key") for form in ("", "-data")),
}


class KubeconfigError(Exception):
    """The files say nothing usable; the message says what is wrong."""


@dataclass(frozen=True)
class Access:
    """One context: where the server is, and plain credentials. Paths are absolute."""

    server: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        """Whether it needs nothing but what is written here."""
        return self.cluster.keys() <= _PLAIN_CLUSTER and self.user.keys() <= _PLAIN_USER

    def token(self) -> str:
        """The bearer token, empty without one; a token file is read anew each time."""
        if self.user.get("tokenFile"):
            return Path(self.user["tokenFile"]).read_text().strip()
        return str(self.user.get("token") or "")

    def ssl_context(self) -> ssl.SSLContext | None:
        """None for plain http."""
        if not self.server.startswith("https"):
            return None
        authority = _bytes(self.cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if self.cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _bytes(self.user, "client-certificate"), _bytes(self.user, "client-key")
        if certificate and key:
            with tempfile.NamedTemporaryFile() as both:  # the ssl module takes nothing but a file
                both.write(certificate + b"\n" + key)
                both.flush()
                context.load_cert_chain(both.name)
        return context


def paths(named: str | None) -> list[Path]:
    """The files kubectl would read: the one named, $KUBECONFIG's, ~/.kube/config."""
    if named:
        return [Path(named)]
    listed = [Path(one).expanduser() for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    return listed or [Path("~/.kube/config").expanduser()]


def read_access(named: str | None = None, context_name: str | None = None) -> Access:
    """The context asked for, or the current one. KubeconfigError when there is none."""
    files = [one for one in paths(named) if one.is_file()]
    if not files:
        raise KubeconfigError("there is no such file: " + ", ".join(str(one) for one in paths(named)))
    merged: dict[str, Any] = {"contexts": {}, "clusters": {}, "users": {}, "current-context": ""}
    for file in files:
        _merge(merged, file)
    wanted = context_name or merged["current-context"]
    if wanted not in merged["contexts"]:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise KubeconfigError(f"no context {wanted!r} (there are: {known})" if wanted else "it sets no current-context")
    context = merged["contexts"][wanted]
    cluster = merged["clusters"].get(context.get("cluster"))
    if not cluster or not cluster.get("server"):
        raise KubeconfigError(f"context {wanted!r} names cluster {context.get('cluster')!r}, which has no server")
    user = merged["users"].get(context.get("user")) or {}
    return Access(str(cluster["server"]).rstrip("/"), str(context.get("namespace") or "default"), cluster, user)


def _merge(merged: dict[str, Any], file: Path) -> None:
    """What an earlier file says stays."""
    import yaml  # 4 MB, which an agent in a Pod has no need of

    try:
        body = yaml.safe_load(file.read_text()) or {}
        for plural, singular in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for entry in body.get(plural) or []:
                found = {name: value for name, value in (entry.get(singular) or {}).items() if value not in (None, "")}
                merged[plural].setdefault(entry["name"], _absolute(found, file.parent))
        merged["current-context"] = merged["current-context"] or body.get("current-context") or ""
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{file} is not a kubeconfig: {error}") from error


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Paths are relative to their file."""
    files = {"certificate-authority", "client-certificate", "client-key", "tokenFile"}
    return {name: str(folder / value) if name in files else value for name, value in entry.items()}


def _bytes(entry: Mapping[str, Any], name: str) -> bytes:
    """Inline data, which goes first, or a file's."""
    if entry.get(f"{name}-data"):
        return base64.b64decode("".join(str(entry[f"{name}-data"]).split()), validate=True)
    return Path(entry[name]).read_bytes() if entry.get(name) else b""
