"""Where the API server is and how to prove who we are: in a Pod, or by kubeconfig."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from iris_operator.adapters.kube.kubeconfig import KubeconfigError, read_access

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_MAX_AGE_SECONDS = 60.0  # projected tokens are rotated on disk well before they expire

TokenSource = Callable[[], Awaitable[str]]


async def _no_token() -> str:
    return ""


@dataclass(frozen=True)
class Connection:
    """An API server and our credentials for it."""

    server: str
    ssl_context: ssl.SSLContext | None
    namespace: str = "default"
    token: TokenSource = field(default=_no_token)


class ConfigError(Exception):
    """No usable configuration; the message says what was looked for."""


def in_cluster() -> bool:
    """Whether this process runs in a Pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT_DIR / "token").exists()


def from_service_account(directory: Path = SERVICE_ACCOUNT_DIR) -> Connection:
    """The Pod's own service account; its token is read again as the kubelet rotates it."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    cached = ("", -_TOKEN_MAX_AGE_SECONDS)

    async def token() -> str:
        nonlocal cached
        if time.monotonic() - cached[1] > _TOKEN_MAX_AGE_SECONDS:
            cached = ((directory / "token").read_text().strip(), time.monotonic())
        return cached[0]

    netloc = f"[{host}]" if ":" in host else host
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    return Connection(f"https://{netloc}:{port}", context, (directory / "namespace").read_text().strip(), token)


async def from_kubeconfig(path: str | None = None, context_name: str | None = None) -> Connection:
    """A kubeconfig's (current) context; by kubernetes_asyncio's loader when it needs an exec plugin or the like."""
    where = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        access = read_access(path, context_name)
        if not access.plain:
            return await _by_the_big_loader(path, context_name)

        async def token() -> str:
            return access.token()

        return Connection(access.server, access.ssl_context(), access.namespace, token)
    except (KubeconfigError, OSError, ValueError) as error:  # ValueError: base64 or a certificate that is none
        raise ConfigError(f"no usable kubeconfig ({where}): {error}") from error


async def _by_the_big_loader(path: str | None, context_name: str | None) -> Connection:
    # Imported here because it costs 70 MB and 1.6 s, which plain credentials never need.
    from kubernetes_asyncio import config
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.config_exception import ConfigException

    loaded = Configuration()
    try:
        await config.load_kube_config(config_file=path, context=context_name, client_configuration=loaded)
    except ConfigException as error:
        raise KubeconfigError(str(error)) from error

    async def token() -> str:
        if loaded.refresh_api_key_hook is not None:
            await loaded.refresh_api_key_hook(loaded)
        return str(loaded.api_key.get("BearerToken", "")).removeprefix("Bearer ").strip()

    return Connection(
        loaded.host.rstrip("/"),
        _ssl_context(loaded) if loaded.host.startswith("https") else None,
        read_access(path, context_name).namespace,
        token,
    )


def _ssl_context(loaded: object) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=getattr(loaded, "ssl_ca_cert", None))
    if not getattr(loaded, "verify_ssl", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = getattr(loaded, "cert_file", None)
    if certificate:
        context.load_cert_chain(certificate, getattr(loaded, "key_file", None))
    return context


async def connect(kubeconfig: str | None = None, context_name: str | None = None) -> Connection:
    """What kubectl would use: the file named, $KUBECONFIG, ~/.kube/config; else, in a Pod, its service account."""
    named = kubeconfig or os.environ.get("KUBECONFIG")
    if not named and in_cluster():
        return from_service_account()
    return await from_kubeconfig(kubeconfig, context_name)
