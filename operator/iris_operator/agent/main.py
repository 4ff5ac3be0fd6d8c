"""`iris-agent`: what the worker Pod runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click
from aiohttp import web

from iris_operator import malloc
from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import ConfigError as KubeConfigError
from iris_operator.adapters.kube.config import connect
from iris_operator.agent.agent import Agent, utc_now
from iris_operator.agent.config import AgentConfig, ConfigError, from_environment
from iris_operator.agent.node import outside
from iris_operator.agent.node.tls import Certificate, serve_streams
from iris_operator.agent.server import agent_app, serve
from iris_operator.agent.streams.app import add_stream_routes
from iris_operator.api.names import AGENT_DEV_DIR
from iris_operator.version import VERSION
from iris_runtimes.containerd.driver import ContainerdRuntime
from iris_runtimes.protocol import Runtime

log = logging.getLogger(__name__)

# A TLS connection costs a third of a megabyte here, and something in the API server too.
_CONNECTIONS = 12


def _containerd(config: AgentConfig) -> Runtime:
    return ContainerdRuntime(
        config.containerd_socket,
        default_registry=config.image_registry,
        exec_folder=config.cache_dir / "exec",
        node_dev=Path(AGENT_DEV_DIR if Path(AGENT_DEV_DIR).is_dir() else "/dev"),
        busybox=config.busybox,
    )


# The others are imported when they are asked for: each is memory on every node.
def _docker(config: AgentConfig) -> Runtime:
    from iris_runtimes.docker.driver import DEFAULT_SOCKET, DockerRuntime

    kubelets = None if config.outside else ContainerdRuntime(config.containerd_socket)
    return DockerRuntime(
        os.environ.get("IRIS_DOCKER_SOCKET") or DEFAULT_SOCKET,
        default_registry=config.image_registry,
        kubelets=None if kubelets is None else kubelets.pod_context,
    )


def _enroot(config: AgentConfig) -> Runtime:
    from iris_runtimes.enroot.driver import EnrootRuntime

    return EnrootRuntime(root=Path(config.cache_dir) / "enroot", default_registry=config.image_registry)


_RUNTIMES: dict[str, Callable[[AgentConfig], Runtime]] = {
    "containerd": _containerd,
    "docker": _docker,
    "enroot": _enroot,
}


@click.command()
@click.version_option(VERSION)
@click.option(
    "--runtime", type=click.Choice(list(_RUNTIMES)), help="What runs Tasks; else IRIS_RUNTIME, else containerd."
)
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="Outside of Kubernetes' Pods: how to reach the API server."
)
@click.option("--node-name", help="Outside: this machine's name in the slice; else NODE_NAME.")
@click.option("--slice", "slice_name", help="Outside: the slice it belongs to; else IRIS_SLICE.")
@click.option("--rank", type=click.IntRange(min=0), help="Outside: its rank in the slice; else IRIS_RANK, else 0.")
@click.option("--namespace", help="Outside: the slice's namespace; else POD_NAMESPACE.")
@click.option("--log-level", default="INFO", show_default=True, help="DEBUG, INFO, WARNING or ERROR.")
def main(
    runtime: str | None,
    kubeconfig: str | None,
    node_name: str | None,
    slice_name: str | None,
    rank: int | None,
    namespace: str | None,
    log_level: str,
) -> None:
    """The Iris node agent: runs this node's Tasks on its container runtime.

    In a worker Pod it is configured by the Pod's environment. Elsewhere --kubeconfig is needed: docs/node.md.
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    _spare_memory()
    try:
        said = {
            "IRIS_RUNTIME": runtime, "NODE_NAME": node_name, "IRIS_SLICE": slice_name, "POD_NAMESPACE": namespace,
            "IRIS_RANK": None if rank is None else str(rank), "IRIS_OUTSIDE": kubeconfig,
        }  # fmt: skip
        env = {**os.environ, **{name: value for name, value in said.items() if value is not None}}
        config = from_environment(outside.as_in_a_pod(env, outside.machine_id()) if kubeconfig else env)
        asyncio.run(_run(config, kubeconfig))
    except (ConfigError, KubeConfigError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.strerror or error} (port or folder in use, or not permitted)") from error


def _spare_memory() -> None:
    malloc.few_arenas()
    gc.freeze()  # modules live for ever: no use looking through them at each collection


async def _run(config: AgentConfig, kubeconfig: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    make = _RUNTIMES.get(config.runtime)
    if make is None:
        raise ConfigError(f"IRIS_RUNTIME is {config.runtime!r}, none of {', '.join(_RUNTIMES)}")
    runtime = make(config)
    async with KubeClient(
        await connect(kubeconfig), user_agent=f"iris-agent/{VERSION}", connections=_CONNECTIONS
    ) as api:
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
    except Exception:
        # Tasks run all the same: ending would stop what does work.
        log.exception("logs and exec of this node's Tasks can't be had: port %d", config.stream_port)


if __name__ == "__main__":
    main()
