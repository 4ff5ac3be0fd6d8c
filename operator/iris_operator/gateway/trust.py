"""What the gateway proves itself with and whom it believes: read from the API, kept new."""

from __future__ import annotations

import asyncio
import logging
import ssl

from iris_operator.gateway.headers import CONFIG_MAP, FrontProxy, NoFrontProxy, front_proxy
from iris_operator.identity.certificates import BadPem
from iris_operator.identity.names import GATEWAY_SECRET
from iris_operator.identity.papers import read_gateway
from iris_operator.identity.tls import client_context, server_context, take
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import CONFIG_MAPS, SECRETS, KubeApi

log = logging.getLogger(__name__)

# The operator makes the Secret when it starts leading; later changes are announced days before they matter.
_SOON_SECONDS, _LATER_SECONDS = 0.5, 60.0


class Trust:
    """`server`: context of our own port. `agents`: context towards agents. `proxy`: the API server's front proxy."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.server = server_context(client_required=False)
        self.agents = client_context()
        self.proxy: FrontProxy | None = None
        self._api, self._namespace = api, namespace
        self._seen: object = None
        self._trouble = ""

    async def load(self) -> None:
        """Returns when both are there."""
        while not await self._read():  # noqa: ASYNC110 the API is the only one to ask
            await asyncio.sleep(_SOON_SECONDS)

    async def keep(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(_LATER_SECONDS)
            await self._read()

    async def _read(self) -> bool:
        """Take over what is new. Whatever goes wrong is logged once and leaves all as it was."""
        try:
            proxy = front_proxy(await self._api.get(CONFIG_MAPS, CONFIG_MAP[1], CONFIG_MAP[0]))
            papers = read_gateway(await self._api.get(SECRETS, GATEWAY_SECRET, self._namespace))
            if (papers, proxy.authority) != self._seen:
                pair, bundle = papers
                take(self.server, pair, proxy.authority)
                take(self.agents, pair, bundle)
                self._seen = (papers, proxy.authority)
                log.info("took over the gateway's certificate, and whom to believe")
            self.proxy, self._trouble = proxy, ""
        except (ApiError, BadPem, NoFrontProxy, ssl.SSLError) as error:
            if str(error) != self._trouble:
                log.warning("reading what to prove ourselves with: %s", error)
            self._trouble = str(error)
            return False
        return True
