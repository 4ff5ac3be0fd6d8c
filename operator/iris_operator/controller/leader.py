"""One leader by a Lease. Whoever can't renew in time must stop at once: another may already lead.

Our own rather than kubernetes_asyncio's: that one measures by the wall clock, bounds no request in time (a renewal that
hangs outlasts the Lease), and does not release on exit, so that a rolling update would wait for the Lease to run out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from iris_operator.ports.errors import ApiError, ConflictError, NotFoundError
from iris_operator.ports.kube import LEASES, KubeApi

log = logging.getLogger(__name__)

LEASE_SECONDS = 12
_RENEW_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_RENEW_DEADLINE_SECONDS = 8.0  # under LEASE_SECONDS by more than a request's time
_CALL_SECONDS = 3.0


class Leadership:
    """Acquire, then keep. `leading` is read by /health."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        identity: str,
        name: str = "iris-operator",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.leading = False
        self.holder = ""
        self._api, self._namespace, self._identity, self._name, self._clock = api, namespace, identity, name, clock
        self._seen: tuple[str, float] = ("", 0.0)  # the Lease's resourceVersion, and when we first saw that one

    async def acquire(self) -> None:
        """Returns when we lead."""
        while not await self._try():  # noqa: ASYNC110 the Lease is the only thing to ask, and only by asking
            await asyncio.sleep(_RENEW_SECONDS / 2)
        self.leading = True
        log.info("leading as %s", self._identity)

    async def keep(self) -> None:
        """Returns when the leadership is lost; the caller must end the process."""
        renewed = self._clock()
        pause = _RENEW_SECONDS
        while self._clock() - renewed < _RENEW_DEADLINE_SECONDS:
            await asyncio.sleep(pause)
            started = self._clock()
            if await self._try():
                renewed, pause = started, _RENEW_SECONDS
            elif self.holder != self._identity:
                break
            else:
                pause = _RETRY_SECONDS
        self.leading = False
        log.error("leadership lost to %s", self.holder or "nobody known")

    async def release(self) -> None:
        """Let the next one lead at once; a Lease that is another's by now stays so."""
        if self.leading:
            self.leading = False
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    while not await self._give_up():  # a last renewal of ours came in between
                        pass
            except (ApiError, TimeoutError) as error:
                log.warning("the Lease was not released, it will run out: %s", error)

    async def _give_up(self) -> bool:
        lease = await self._api.get(LEASES, self._name, self._namespace)
        if lease["spec"].get("holderIdentity") != self._identity:
            return True
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
        patch = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}
        try:
            await self._api.patch(LEASES, self._name, patch, namespace=self._namespace)
        except ConflictError:
            return False
        return True

    async def _try(self) -> bool:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                return await self._take_or_renew()
        except (ApiError, TimeoutError) as error:
            log.warning("leader Lease %s/%s: %s", self._namespace, self._name, str(error) or "no answer in time")
            return False

    async def _take_or_renew(self) -> bool:
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            await self._api.create(LEASES, self._body(), self._namespace)
            self.holder = self._identity
            return True
        self.holder = lease["spec"].get("holderIdentity") or ""
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, self._clock())
        duration = lease["spec"].get("leaseDurationSeconds") or LEASE_SECONDS
        # Another's Lease has run out when we saw it unchanged for its whole length: no clocks are compared.
        if self.holder not in ("", self._identity) and self._clock() - self._seen[1] < duration:
            return False
        body = self._body()
        patch: dict[str, Any] = {"metadata": {"resourceVersion": version}, "spec": dict(body["spec"])}
        if self.holder == self._identity:
            del patch["spec"]["acquireTime"]
        try:
            await self._api.patch(LEASES, self._name, patch, namespace=self._namespace)
        except ConflictError:
            return False
        self.holder = self._identity
        return True

    def _body(self) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": now,
                "renewTime": now,
            },
        }
