"""The simulator's process: `python -m iris_devcluster.coreweave.controller --root ROOT`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import click

from iris_devcluster.coreweave import service
from iris_devcluster.coreweave.controller.install import install
from iris_devcluster.coreweave.controller.loop import Controller
from iris_devcluster.coreweave.host import ClusterHost
from iris_devcluster.coreweave.kube import KubeClient, read_kubeconfig
from iris_devcluster.nodes import Cluster

_LOOK_SECONDS = 0.5


@click.command()
@click.option("--root", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True)
@click.option("--verbose", is_flag=True, help="Log every look and every attempt.")
def main(root: Path, verbose: bool) -> None:
    """Serve NodePools of the cluster in ROOT until stopped."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stdout,
    )
    asyncio.run(_run(Cluster.open(root)))


async def _run(cluster: Cluster) -> None:
    log = logging.getLogger(__name__)
    async with KubeClient(read_kubeconfig(cluster.kubeconfig)) as kube:
        await install(kube)
        service.mark_ready(cluster.root)
        log.info("serving NodePools of %s", cluster.root)
        work = asyncio.create_task(Controller(kube, ClusterHost(cluster)).run())
        leave = asyncio.create_task(_leave_with_parent(work))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            log.info("stopped")
        finally:
            leave.cancel()


async def _leave_with_parent(work: asyncio.Task[None]) -> None:
    """A keeper that was killed is started anew with a controller of its own: there must not be two."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - the kernel offers no event for it without prctl
        await asyncio.sleep(_LOOK_SECONDS)
    work.cancel()


if __name__ == "__main__":
    main()
