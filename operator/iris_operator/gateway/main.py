"""`iris-operator gateway`: the process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import click
from aiohttp import web

from iris_operator import malloc
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import connect
from iris_operator.gateway.proxy import agent_session
from iris_operator.gateway.server import Gateway
from iris_operator.gateway.trust import Trust
from iris_operator.version import VERSION

log = logging.getLogger(__name__)

GATEWAY_PORT = 10443
# The API server goes on sending for a moment after our Pod is on its way out.
_LAST_SECONDS = 2.0


async def run_gateway(kubeconfig: str | None, namespace: str, port: int, host: str | None = None) -> None:
    """Serve until told to end. Streams under way are broken off then; whoever reads a log goes on by another one."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with KubeClient(await connect(kubeconfig), user_agent=f"iris-gateway/{VERSION}") as api:
        trust = Trust(api, namespace)
        loading = asyncio.create_task(trust.load())
        ending = asyncio.create_task(told.wait())
        await asyncio.wait((loading, ending), return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            return
        async with agent_session(trust.agents) as agents:
            app = Gateway(api, agents, lambda: trust.proxy).app(lambda: not told.is_set())
            # A client that leaves ends its handler, and with it the call to the agent.
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
            await runner.setup()
            keeping = asyncio.create_task(trust.keep())
            try:
                await web.TCPSite(runner, host, port, ssl_context=trust.server).start()
                log.info("gateway %s serves on port %d", VERSION, port)
                await ending
                await asyncio.sleep(_LAST_SECONDS)
            finally:
                keeping.cancel()
                await runner.cleanup()


@click.command()
@click.option("--port", default=GATEWAY_PORT, show_default=True, help="Port to serve by TLS.")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Kubeconfig, when not in a Pod.")
@click.option("--log-level", default="INFO", show_default=True)
def gateway(port: int, kubeconfig: str | None, log_level: str) -> None:
    """Serve logs, exec and other streams of Tasks and nodes as an aggregated API of the cluster."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    malloc.keep_buffers()
    asyncio.run(run_gateway(kubeconfig, os.environ.get("POD_NAMESPACE", "default"), port))
