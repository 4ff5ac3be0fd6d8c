"""The aggregated API: who asks, may they, whose agent has it; then the stream."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web
from pydantic import ValidationError

from iris_operator.api.core import Lease, Pod
from iris_operator.api.machine import machine_of, machine_pod
from iris_operator.api.names import LABEL_MACHINE, LABEL_SLICE, MANAGED_SELECTOR
from iris_operator.api.slice import Slice
from iris_operator.api.task import Task
from iris_operator.gateway import access
from iris_operator.gateway.answers import Refusal, of_api
from iris_operator.gateway.documents import documents
from iris_operator.gateway.headers import FrontProxy, User, user_of
from iris_operator.gateway.proxy import Unreachable, forward
from iris_operator.gateway.routes import Ask, parse
from iris_operator.gateway.target import Target, Wanted, choose, of_slice, of_task
from iris_operator.identity.tls import common_name
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import ACCESS_REVIEWS, LEASES, PODS, SLICES, TASKS, KubeApi

log = logging.getLogger(__name__)

# Ours, not the agent's.
_CHOICES = ("attempt", "rank")

_NOBODY = Refusal(401, "Unauthorized", "requests come through the API server: nobody vouches for this one")


def peer_of(request: web.Request) -> str:
    """Common name of the certificate that its client has proven; empty without one."""
    return "" if request.transport is None else common_name(request.transport.get_extra_info("peercert"))


class Gateway:
    """Answers requests. `proxy`: the API server's front proxy as last read. `peer`: whose connection it is."""

    def __init__(
        self,
        api: KubeApi,
        agents: aiohttp.ClientSession,
        proxy: Callable[[], FrontProxy | None],
        peer: Callable[[web.Request], str] = peer_of,
    ) -> None:
        self._api, self._agents, self._proxy, self._peer = api, agents, proxy, peer

    def app(self, ready: Callable[[], bool]) -> web.Application:
        """Everything that it serves; /livez and /readyz to anybody."""

        async def live(_: web.Request) -> web.Response:
            return web.Response(text="ok\n")

        async def readyz(_: web.Request) -> web.Response:
            return web.Response(text="ok\n" if ready() else "starting\n", status=200 if ready() else 503)

        app = web.Application()
        for path in ("/livez", "/healthz"):
            app.router.add_get(path, live)
        app.router.add_get("/readyz", readyz)
        for path, document in documents().items():
            app.router.add_get(path, self._known(_telling(document)))
        app.router.add_route("*", "/{path:.*}", self._known(self._serve))
        return app

    def _known(
        self, handler: Callable[[web.Request, User], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def check(request: web.Request) -> web.StreamResponse:
            proxy = self._proxy()
            user = None if proxy is None else user_of(proxy, self._peer(request), request.headers.items())
            return _refused(_NOBODY) if user is None else await handler(request, user)

        return check

    async def _serve(self, request: web.Request, user: User) -> web.StreamResponse:
        ask = parse(request.method, request.path)
        if isinstance(ask, Refusal):
            return _refused(ask)
        target = await self._find(request, user, ask)
        if isinstance(target, Refusal):
            return _refused(target)
        if ask.verb != "get":
            where = f"{ask.namespace}/{ask.name}"
            log.info("%s: %s %s/%s of %s", user.name, ask.verb, ask.resource, ask.subresource, where)
        query = [(name, value) for name, value in request.query.items() if name not in _CHOICES]
        try:
            return await forward(request, self._agents, target, query)
        except Unreachable as error:
            log.info("%s", error.refusal.message)
            return _refused(error.refusal)

    async def _find(self, request: web.Request, user: User, ask: Ask) -> Target | Refusal:
        """May they, and where is it; asked in this order, so that who may not learns nothing."""
        try:
            answered = await self._api.create(ACCESS_REVIEWS, access.review(user, ask))
        except ApiError as error:
            return of_api(error, "ask whether you may")
        refusal = access.refusal(answered, user, ask)
        if refusal is not None:
            return refusal
        try:
            wanted = await self._wanted(request, ask)
            return wanted if isinstance(wanted, Refusal) else choose(wanted, await self._workers(ask, wanted))
        except ApiError as error:
            return of_api(error, f"look for {ask.resource} {ask.name}")
        except ValidationError as error:
            return Refusal(500, "InternalError", f"{ask.resource} {ask.name} can't be read: {error}")

    async def _wanted(self, request: web.Request, ask: Ask) -> Wanted | Refusal:
        if ask.resource == "tasks":
            task = Task.parse(await self._api.get(TASKS, ask.name, ask.namespace))
            return of_task(task, ask.subresource, request.query.get("attempt", ""))
        found = Slice.parse(await self._api.get(SLICES, ask.name, ask.namespace))
        return of_slice(found, ask.subresource, request.query.get("rank", ""))

    async def _workers(self, ask: Ask, wanted: Wanted) -> list[Pod]:
        labels = f"{MANAGED_SELECTOR},{LABEL_SLICE}={wanted.slice_name}"
        pods = [Pod.parse(body) for body in (await self._api.list(PODS, ask.namespace, labels=labels)).items]
        if pods:
            return pods
        machines = (await self._api.list(LEASES, ask.namespace, labels=f"{labels},{LABEL_MACHINE}=true")).items
        leases = [Lease.parse(body) for body in machines]
        return [machine_pod(lease, found) for lease in leases if (found := machine_of(lease)) is not None]


def _telling(document: dict[str, object]) -> Callable[[web.Request, User], Awaitable[web.StreamResponse]]:
    async def tell(_: web.Request, __: User) -> web.StreamResponse:
        return web.json_response(document)

    return tell


def _refused(refusal: Refusal) -> web.Response:
    return web.json_response(refusal.body, status=refusal.status)
