"""Keep the authority, the gateway's certificate, and what the API server trusts of it."""

from __future__ import annotations

import base64
import logging
from typing import Any

from iris_operator.api.names import FIELD_MANAGER
from iris_operator.controller.memo import Controller
from iris_operator.controller.workqueue import Key
from iris_operator.identity.authority import Authority, advance, first_authority
from iris_operator.identity.certificates import BadPem
from iris_operator.identity.names import API_SERVICE, CA_SECRET, GATEWAY_SECRET
from iris_operator.identity.papers import authority_secret, gateway_secret, gateway_secret_is_good, read_authority
from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import API_SERVICES, SECRETS

log = logging.getLogger(__name__)


class NoAuthority(ApiError):
    """The authority's Secret is there and can't be used; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NoAuthority", message)


async def load_authority(controller: Controller) -> Authority:
    """The one of this installation: as stored, or made now. Of two that make it, the first one's counts."""
    try:
        stored = await controller.api.get(SECRETS, CA_SECRET, controller.home)
    except NotFoundError:
        made = authority_secret(first_authority(controller.now()))
        made["data"] = {name: value for name, value in made["data"].items() if value is not None}
        controller.writes["create secrets"] += 1
        try:
            stored = await controller.api.create(SECRETS, made, controller.home)
            log.info("made the authority of this installation: Secret %s/%s", controller.home, CA_SECRET)
        except ConflictError:
            stored = await controller.api.get(SECRETS, CA_SECRET, controller.home)
    try:
        return read_authority(stored)
    except BadPem as error:
        words = f"{error}. Delete the Secret to have a new authority; workers' agents must then be started anew"
        raise NoAuthority(words) from error


class AuthorityReconciler:
    """One pass, at the start and at each look at all: certificates are renewed days before they end."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def reconcile(self, key: Key) -> None:
        """Writes nothing when all is as it should be."""
        if not self._controller.home:
            return
        authority = await self._advanced(await load_authority(self._controller))
        await self._keep_gateway(authority)
        await self._keep_api_service(authority)

    async def _advanced(self, authority: Authority) -> Authority:
        after = advance(authority, self._controller.now())
        if after is not authority:
            log.info("the authority moves on: %d trusted, next one %s", len(after.trusted), bool(after.coming))
            await self._patch(CA_SECRET, authority_secret(after))
        return after

    async def _keep_gateway(self, authority: Authority) -> None:
        home, now = self._controller.home, self._controller.now()
        try:
            stored = await self._controller.api.get(SECRETS, GATEWAY_SECRET, home)
        except NotFoundError:
            self._controller.writes["create secrets"] += 1
            await self._controller.api.create(SECRETS, gateway_secret(authority, home, now), home)
            return
        if not gateway_secret_is_good(stored, authority, home, now):
            log.info("a new certificate for the gateway")
            await self._patch(GATEWAY_SECRET, gateway_secret(authority, home, now))

    async def _patch(self, name: str, body: dict[str, Any]) -> None:
        self._controller.writes["patch secrets"] += 1
        await self._controller.api.patch(SECRETS, name, {"data": body["data"]}, namespace=self._controller.home)

    async def _keep_api_service(self, authority: Authority) -> None:
        """Only its caBundle is ours: the rest is the chart's. Without one there is no gateway in this installation."""
        try:
            stored = await self._controller.api.get(API_SERVICES, API_SERVICE)
        except NotFoundError:
            return
        bundle = base64.b64encode(authority.bundle).decode()
        spec = stored.get("spec", {})
        if (spec.get("service") or {}).get("namespace") != self._controller.home or spec.get("caBundle") == bundle:
            return
        log.info("APIService %s: a new bundle of trusted certificates, as %s", API_SERVICE, FIELD_MANAGER)
        self._controller.writes["patch apiservices"] += 1
        await self._controller.api.patch(API_SERVICES, API_SERVICE, {"spec": {"caBundle": bundle}})
