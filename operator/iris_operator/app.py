"""The composition root of the operator: leader, then kopf, then the engine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click
import kopf
import yaml

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import connect
from iris_operator.api.names import CONTROLLER_PORT
from iris_operator.controller.engine import Engine
from iris_operator.controller.gate import WriteGate
from iris_operator.controller.leader import Leadership
from iris_operator.controller.memo import Controller
from iris_operator.controller.registry import build_registry, build_settings
from iris_operator.gateway.main import gateway
from iris_operator.ports.errors import ApiError
from iris_operator.ports.kube import IRIS_CLUSTERS
from iris_operator.server.health import health_app, serve
from iris_operator.server.metrics import Metrics, Sources
from iris_operator.server.tally import Tally
from iris_operator.settings import ProcessSettings
from iris_operator.version import VERSION

log = logging.getLogger(__name__)

_CLUSTER_MANAGER = "iris-chart"
_RETRY_SECONDS = 2.0
_LAST_WRITES_SECONDS = 3.0


async def run_operator(settings: ProcessSettings) -> int:
    """Run until the leadership is lost or the process is told to end; the exit code."""
    connection = await connect(settings.kubeconfig)
    async with KubeClient(connection, user_agent=f"iris-operator/{VERSION}") as api:
        gate = WriteGate(api)
        controller = Controller(gate, settings.namespaces, VERSION, home=settings.lease_namespace)
        leadership = Leadership(api, settings.lease_namespace, settings.identity)
        app = health_app(lambda: _describe(controller, leadership), _metrics(controller, leadership).text)
        runner = await serve(app, settings.port)
        told = asyncio.Event()
        _when_told_to_end(told)
        try:
            if not await _first(leadership.acquire(), told):
                log.info("told to end while waiting to lead")
                return 0
            return await _lead(settings, controller, leadership, gate, told)
        finally:
            await runner.cleanup()


def _when_told_to_end(told: asyncio.Event) -> None:
    """Set it at SIGTERM: as a container's first process we have no default handler."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)


async def _first(waiting: Coroutine[Any, Any, None], told: asyncio.Event) -> bool:
    """Whether it ended before we were told to; else it is cancelled."""
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(told.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    done = tasks[0].done()
    await _cancel(*tasks)
    return done


async def _lead(
    settings: ProcessSettings, controller: Controller, leadership: Leadership, gate: WriteGate, told: asyncio.Event
) -> int:
    """Everything that only the leader does. At its end the next one leads at once, not when kopf has stopped, too."""
    keeping = asyncio.create_task(leadership.keep(), name="leadership")
    working = asyncio.create_task(_work(settings, controller, told), name="work")
    ending = asyncio.create_task(told.wait(), name="told to end")
    await asyncio.wait({keeping, working, ending}, return_when=asyncio.FIRST_COMPLETED)
    # Not under way: a last write's answer. So nothing of ours can reach the API server after the release.
    certain = not keeping.done() and await gate.close(_LAST_WRITES_SECONDS)
    if keeping.done():
        # Another may lead already: no clean-up, no last write.
        logging.shutdown()
        os._exit(1)
    await _cancel(keeping)
    if certain:
        await leadership.release()
    else:
        log.warning("a write may still be under way: the Lease is left to run out")
    if working.done():
        working.result()
    await _cancel(working, ending)
    return 0


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _work(settings: ProcessSettings, controller: Controller, told: asyncio.Event) -> None:
    """Until cancelled, or one of its parts breaks."""
    await _apply_cluster(settings, controller)
    engine = Engine(controller)
    await engine.resync()
    parts = [asyncio.create_task(engine.run(), name="engine")]
    parts.append(asyncio.create_task(_watch(settings, controller, told), name="kopf"))
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancel(*parts)


async def _watch(settings: ProcessSettings, controller: Controller, told: asyncio.Event) -> None:
    """kopf.operator, but the signals stay ours: kopf would first stop, which takes seconds, and then tell us."""
    strangers = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=_with_login(build_registry(controller), settings.kubeconfig),
        settings=build_settings(),
        namespaces=settings.namespaces,
        standalone=True,
    )
    _when_told_to_end(told)  # it has just set its own handlers
    await kopf.run_tasks(tasks, ignored=strangers)


def _with_login(registry: kopf.OperatorRegistry, kubeconfig: str | None) -> kopf.OperatorRegistry:
    @kopf.on.login(registry=registry, id="login")
    def login(**kwargs: object) -> kopf.ConnectionInfo | None:
        if kubeconfig:
            os.environ["KUBECONFIG"] = kubeconfig
        if "KUBECONFIG" in os.environ:
            return kopf.login_with_kubeconfig(**kwargs)  # type: ignore[arg-type]
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)  # type: ignore[arg-type]

    return registry


async def _apply_cluster(settings: ProcessSettings, controller: Controller) -> None:
    """The IrisCluster that the chart describes. A chart can't hold it: its CRD comes with the same release."""
    if settings.cluster_file is None:
        return
    for body in yaml.safe_load_all(settings.cluster_file.read_text()):
        if not body:
            continue
        namespace = body["metadata"].get("namespace") or settings.namespaces[0]
        while True:
            try:
                await controller.api.apply(IRIS_CLUSTERS, body, manager=_CLUSTER_MANAGER, namespace=namespace)
                break
            except ApiError as error:
                log.warning(
                    "applying IrisCluster %s: %s; again in %s s", body["metadata"]["name"], error, _RETRY_SECONDS
                )
                await asyncio.sleep(_RETRY_SECONDS)


def _describe(controller: Controller, leadership: Leadership) -> dict[str, object]:
    return {
        "status": "ok",
        "version": VERSION,
        "leading": leadership.leading,
        "leader": leadership.holder,
        "queued": len(controller.queue),
    }


def _metrics(controller: Controller, leadership: Leadership) -> Metrics:
    """What /metrics shows; follows the controller from now on."""
    cache = controller.cache
    tally = Tally(controller.namespaces, time.monotonic, controller.now)
    controller.listeners.append(tally.observe)
    return Metrics(
        Sources(
            leading=lambda: leadership.leading,
            queued=lambda: len(controller.queue),
            groups=cache.groups.values,
            slices=cache.slices.values,
            tasks=lambda: (task for one in controller.namespaces for task in cache.open_tasks(one)),
            writes=controller.writes,
            counters=controller.counters,
        ),
        tally,
    )


@click.group()
@click.version_option(VERSION)
def main() -> None:
    """The Iris operator."""


main.add_command(gateway)


@main.command()
@click.option("--namespace", "namespaces", multiple=True, help="Namespace to serve; may be given several times.")
@click.option(
    "--cluster-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="IrisCluster manifest to server-side-apply at the start.",
)
@click.option("--port", default=CONTROLLER_PORT, show_default=True, help="Port of /health and /metrics.")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Kubeconfig, when not in a Pod.")
@click.option("--log-level", default="INFO", show_default=True)
def run(
    namespaces: tuple[str, ...], cluster_file: Path | None, port: int, kubeconfig: str | None, log_level: str
) -> None:
    """Run the operator: at once as a standby, and as the leader when it holds the Lease."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    own = os.environ.get("POD_NAMESPACE", "default")
    settings = ProcessSettings(
        namespaces=namespaces or (own,),
        cluster_file=cluster_file,
        identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{os.getpid()}",
        lease_namespace=own,
        port=port,
        kubeconfig=kubeconfig,
    )
    sys.exit(asyncio.run(run_operator(settings)))
