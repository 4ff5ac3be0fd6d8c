"""`iris-agent`: what the worker Pod runs."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys

import click
from aiohttp import web

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import ConfigError as KubeConfigError
from iris_operator.adapters.kube.config import connect
from iris_operator.agent.agent import Agent, utc_now
from iris_operator.agent.config import AgentConfig, ConfigError, from_environment
from iris_operator.agent.server import agent_app, serve
from iris_operator.agent.streams.app import add_stream_routes
from iris_operator.agent.tls import Certificate, serve_streams
from iris_operator.version import VERSION
from iris_runtimes.containerd.driver import ContainerdRuntime
from iris_runtimes.protocol import Runtime

log = logging.getLogger(__name__)

# A TLS connection costs a third of a megabyte here, and something in the API server too.
_CONNECTIONS = 12
_M_ARENA_MAX = -8  # malloc.h


@click.command()
@click.version_option(VERSION)
@click.option("--runtime", type=click.Choice(["containerd"]), default="containerd", show_default=True)
@click.option("--log-level", default="INFO", show_default=True, help="DEBUG, INFO, WARNING or ERROR.")
def main(runtime: str, log_level: str) -> None:
    """The Iris node agent: runs this node's Tasks on its container runtime. Configured by the worker Pod's environment."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    _spare_memory()
    try:
        config = from_environment(os.environ)
        asyncio.run(_run(config, runtime))
    except (ConfigError, KubeConfigError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.strerror or error} (port or folder in use, or not permitted)") from error


def _spare_memory() -> None:
    """glibc gives each thread an arena that it never gives back: some 20 MB on every node for nothing."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
    gc.freeze()  # modules live for ever: no use looking through them at each collection


def _make_runtime(config: AgentConfig, name: str) -> Runtime:
    assert name == "containerd"
    return ContainerdRuntime(config.containerd_socket, default_registry=config.image_registry)


async def _run(config: AgentConfig, runtime_name: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runtime = _make_runtime(config, runtime_name)
    async with KubeClient(await connect(), user_agent=f"iris-agent/{VERSION}", connections=_CONNECTIONS) as api:
        agent = Agent(config, api, runtime)
        app = agent_app(agent.health_problem, agent.describe, agent.metrics_text)
        runner = await serve(app, config.host_ip, config.port)
        streams = asyncio.create_task(_serve_streams(config, api, agent), name="streams")
        try:
            await agent.run(stop)
        finally:
            streams.cancel()
            await asyncio.gather(streams, return_exceptions=True)
            await runner.cleanup()
            await runtime.close()


async def _serve_streams(config: AgentConfig, api: KubeClient, agent: Agent) -> None:
    app = web.Application()
    add_stream_routes(app, agent.stream_source())
    try:
        await serve_streams(app, Certificate(api, config, utc_now), config.host_ip, config.stream_port)
    except OSError:
        # Tasks run all the same: ending would stop what does work.
        log.exception("logs and exec of this node's Tasks can't be had: port %d", config.stream_port)


if __name__ == "__main__":
    main()
