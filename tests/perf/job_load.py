"""The same command as a Kubernetes Job, and as Pods one at a time, on the same node through scheduler and kubelet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from iris_operator.ports.errors import NotFoundError
from iris_operator.ports.kube import PODS, Kind
from tests.perf.observe import Observer, pod_stages
from tests.perf.stats import Life
from tests.perf.target import COMMAND, LABEL, Target

JOBS = Kind("batch/v1", "jobs")
STAGES = ("created", "bound", "running", "ended")
_PER_POD_SECONDS = 5.0


async def burst(
    target: Target,
    run: str,
    count: int,
    parallelism: int,
    progress: Callable[[str], None],
    when_ended: Callable[[], Awaitable[None]],
) -> tuple[list[Life], float]:
    """One Job of `count` completions; `when_ended` is called before it is deleted.

    The Pods' lives, and when the Job's creation was asked for (monotonic).
    """
    observer = _observer(target, run)
    job = {
        "apiVersion": JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": run, "labels": {LABEL: run}},
        "spec": {
            "completions": count,
            "parallelism": parallelism,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": {LABEL: run}}, "spec": _pod_spec(target)},
        },
    }
    async with observer.watching():
        try:
            observer.created(run)
            began = observer.lives.pop(run).stages["created"]
            await target.api.create(JOBS, job, target.namespace)
            await observer.ended(count, 60 + count * _PER_POD_SECONDS, progress)
            await when_ended()
        finally:
            await _delete(target, JOBS, run)
            await observer.gone(60 + count * _PER_POD_SECONDS)
    for life in observer.lives.values():
        life.stages["created"] = life.stages["seen"]  # the controller creates Pods; this is when we hear of it
    return list(observer.lives.values()), began


async def one_by_one(target: Target, run: str, count: int, progress: Callable[[str], None]) -> list[Life]:
    """Pods, each created when the one before has ended."""
    observer = _observer(target, run)
    names = [f"{run}-{number}" for number in range(count)]
    async with observer.watching():
        try:
            for number, name in enumerate(names, 1):
                body = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "labels": {LABEL: run}},
                    "spec": _pod_spec(target),
                }
                observer.created(name)
                await target.api.create(PODS, body, target.namespace)
                await observer.ended(number, 120)
                progress(f"{number} of {count}")
        finally:
            for name in list(observer.lives):
                await _delete(target, PODS, name)
            await observer.gone(120)
    return [observer.lives[name] for name in names]


def _observer(target: Target, run: str) -> Observer:
    return Observer(target.api, PODS, target.namespace, f"{LABEL}={run}", pod_stages)


def _pod_spec(target: Target) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "automountServiceAccountToken": False,  # a Task gets none either
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": target.node},
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {"name": "main", "image": target.image, "imagePullPolicy": "IfNotPresent", "command": COMMAND},
        ],
    }


async def _delete(target: Target, kind: Kind, name: str) -> None:
    try:
        await target.api.delete(kind, name, target.namespace)
    except NotFoundError:
        return  # its creation had failed
