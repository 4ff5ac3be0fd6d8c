"""This agent's certificate: asked of the API server, signed by the operator, renewed at two thirds of its life.

The key is made here, anew for each certificate, and stays in memory.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from aiohttp import web

from iris_operator.agent.backoff import Backoff
from iris_operator.agent.config import AgentConfig
from iris_operator.api.core import CertificateSigningRequest
from iris_operator.api.names import LABEL_MANAGED, LABEL_SLICE
from iris_operator.identity.authority import AGENT_LIFE
from iris_operator.identity.certificates import BadPem, Pair, Subject, make_request, new_key, split, validity
from iris_operator.identity.names import GATEWAY_USER, SIGNER, agent_host
from iris_operator.identity.tls import common_name, server_context, take
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import REQUESTS, KubeApi

log = logging.getLogger(__name__)

_LOOK_SECONDS = (0.1, 5.0)
_RETRY_SECONDS = (1.0, 60.0)
# Each try is an object in the API.
_REFUSED_SECONDS = (5.0, 600.0)
_REFUSED_OUTSIDE_SECONDS = (5.0, 60.0)  # a machine may be there long before its Slice is
# The longest sleep until a renewal: a machine that slept, or whose clock was set, must not miss it.
_STEP_SECONDS = 60.0
_USAGES = ["digital signature", "server auth"]


class Refused(Exception):
    """The operator denied it; the message says why."""


class Certificate:
    """`context` serves with the newest certificate; `has_one` is set when there is one."""

    def __init__(self, api: KubeApi, config: AgentConfig, now: Callable[[], datetime]) -> None:
        self.context = server_context(client_required=True)
        self.has_one = asyncio.Event()
        self._api, self._config, self._now = api, config, now

    async def keep(self) -> None:
        """Runs until cancelled: whatever goes wrong is tried again."""
        backoff = Backoff(*_RETRY_SECONDS)
        refused = Backoff(*(_REFUSED_OUTSIDE_SECONDS if self._config.outside else _REFUSED_SECONDS))
        while True:
            try:
                renew_at = await self._renew()
            except (ApiError, Refused, BadPem, ssl.SSLError) as error:
                log.warning("asking for this agent's certificate: %s", error)
                await (refused if isinstance(error, Refused) else backoff).wait()
                continue
            backoff.reset()
            refused.reset()
            while (left := (renew_at - self._now()).total_seconds()) > 0:  # noqa: ASYNC110 the clock tells nobody
                await asyncio.sleep(min(left, _STEP_SECONDS))

    async def _renew(self) -> datetime:
        """Have a new one; when the next is due."""
        key = new_key()
        found = split(await self._signed(key))
        if not found:
            raise BadPem("the operator sent no certificate")
        leaf, trusted = found[0], b"".join(found[1:])
        take(self.context, Pair(leaf, key), trusted)
        self.has_one.set()
        log.info("this agent's certificate is good until %s", validity(leaf).end)
        return validity(leaf).renew_at

    async def _signed(self, key: bytes) -> bytes:
        """What the operator signs for the key. Waits for it; the API server drops what nobody signs within a day."""
        body = request_body(self._config, key)
        name = body["metadata"]["name"]
        try:
            found = await self._api.create(REQUESTS, body)
        except ConflictError:  # made by a call whose answer was lost
            found = await self._api.get(REQUESTS, name)
        backoff = Backoff(*_LOOK_SECONDS)
        while True:
            request = CertificateSigningRequest.parse(found)
            if request.status.certificate:
                return request.status.certificate
            if request.verdict in ("Denied", "Failed"):
                raise Refused(request.why_denied or request.verdict)
            await backoff.wait()
            try:
                found = await self._api.get(REQUESTS, name)
            except NotFoundError:
                raise Refused(f"certificate request {name} is gone") from None


def request_body(config: AgentConfig, key: bytes) -> dict[str, Any]:
    """The CertificateSigningRequest of the key: this worker Pod's own name and the node's address, to serve by."""
    host = agent_host(config.pod_uid)
    subject = Subject(host, (host,), (config.host_ip,) if config.host_ip else ())
    pem = make_request(key, subject)
    return {
        "apiVersion": REQUESTS.api_version,
        "kind": CertificateSigningRequest.KIND,
        "metadata": {
            "name": f"iris-agent-{config.pod_uid}-{hashlib.sha256(pem).hexdigest()[:10]}",
            "labels": {LABEL_MANAGED: "true", LABEL_SLICE: config.slice_name},
        },
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": SIGNER,
            "expirationSeconds": int(AGENT_LIFE.total_seconds()),
            "usages": _USAGES,
        },
    }


@web.middleware
async def gateway_only(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """A certificate of our authority is not enough: other agents have one."""
    peer = None if request.transport is None else request.transport.get_extra_info("peercert")
    if common_name(peer) != GATEWAY_USER:
        raise web.HTTPForbidden(text=f"only {GATEWAY_USER} may ask here\n")
    return await handler(request)


async def serve_streams(app: web.Application, certificate: Certificate, host: str, port: int) -> None:
    """Serve `app` by TLS as soon as there is a certificate, to the gateway only; until cancelled."""
    app.middlewares.insert(0, gateway_only)
    # A reader that leaves ends its handler, which may be waiting for a command that says nothing for hours.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    keeping = asyncio.create_task(certificate.keep(), name="certificate")
    try:
        await runner.setup()
        await certificate.has_one.wait()
        await web.TCPSite(runner, host or None, port, ssl_context=certificate.context).start()
        log.info("streams of Tasks are served on port %d", port)
        await keeping
    finally:
        keeping.cancel()
        await runner.cleanup()
