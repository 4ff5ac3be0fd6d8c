"""An HTTP GET as a kubelet does it, for probes and for preStop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from yarl import URL

from iris_operator.api.probe import HttpGetAction
from iris_operator.version import VERSION

_LOOPBACK = "127.0.0.1"
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10


@dataclass(frozen=True)
class HttpAnswer:
    """`reason`: the server's words for the status."""

    status: int
    reason: str

    @property
    def good(self) -> bool:
        """Whether a probe takes it for success."""
        return 200 <= self.status < 400


def _connector() -> aiohttp.BaseConnector:
    # A connection of its own each time: one that is kept says nothing of whether the server takes new ones. As with a
    # kubelet, the certificate isn't checked.
    return aiohttp.TCPConnector(limit=0, force_close=True, ssl=False)


class HttpGetter:
    """Belongs to the event loop that it is first used in; `close` it."""

    def __init__(self, connector: Callable[[], aiohttp.BaseConnector] = _connector) -> None:
        self._connector = connector
        self._session: aiohttp.ClientSession | None = None

    async def get(self, action: HttpGetAction, host: str, port: int) -> HttpAnswer:
        """The answer. `host`: an address, of IPv6 too; empty: the loopback. No time limit of its own.

        A redirection is followed to the same host only; one to another is the answer. Raises aiohttp.ClientError, OSError, and
        ValueError for what can't be sent.
        """
        url = url_of(action, host, port)
        headers = {"User-Agent": f"iris-agent/{VERSION}"} | {one.name: one.value for one in action.http_headers}
        for _ in range(_MOST_REDIRECTS):
            async with self._client().get(url, headers=headers, allow_redirects=False) as answer:
                found = HttpAnswer(answer.status, answer.reason or "")
                where = answer.headers.get("Location", "") if answer.status in _REDIRECTS else ""
            following = url.join(URL(where)) if where else url
            if not where or following.host != url.host or following.scheme not in ("http", "https"):
                return found
            url = following
        raise aiohttp.ClientError(f"stopped after {_MOST_REDIRECTS} redirects")

    async def close(self) -> None:
        """Let go of the client."""
        if self._session is not None:
            await self._session.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session


def url_of(action: HttpGetAction, host: str, port: int) -> URL:
    """What is asked for; the path as it is written."""
    host = host or _LOOPBACK
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return URL(f"{action.scheme.lower()}://{f'[{host}]' if ':' in host else host}:{port}{path}", encoded=True)
