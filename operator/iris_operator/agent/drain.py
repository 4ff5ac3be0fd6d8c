"""Told to end: is it the whole Pod that goes, or just this process?

Both come as SIGTERM: a deleted Pod, and a container that failed its liveness probe. Only in the first case do the Tasks go too
(their cgroups are the Pod's), and are stopped within their grace; else they run on, and the next agent adopts them.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from iris_operator.agent.config import AgentConfig
from iris_operator.api.base import Resource
from iris_operator.api.core import Pod
from iris_operator.ports.errors import ApiError, NotFoundError
from iris_operator.ports.kube import PODS, KubeApi

log = logging.getLogger(__name__)

# For the last SIGKILLs, reports and removals before the kubelet's own SIGKILL to us.
RESERVE_SECONDS = 8.0
_ASK_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 0.5


async def pod_deadline(api: KubeApi, config: AgentConfig, now: datetime) -> datetime | None:
    """When our Pod will be ended, if it is being deleted; None when it isn't, or when nobody can say.

    When the API server is away, the kubelet can't have heard of a deletion either: then it is just this process.
    """
    deadline = asyncio.get_running_loop().time() + _ASK_SECONDS
    while True:
        try:
            pod: Resource = Pod.parse(await api.get(PODS, config.pod_name, config.pod_namespace))
            break
        except NotFoundError:
            return now
        except ApiError as error:
            log.warning("asking whether Pod %s is being deleted: %s", config.pod_name, error)
            if asyncio.get_running_loop().time() > deadline:
                return None
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
    if pod.metadata.uid != config.pod_uid:
        return now
    return pod.metadata.deletion_timestamp


def kill_at(pod_end: datetime, now: datetime) -> datetime:
    """When Tasks are killed that did not stop by themselves."""
    return max(now, pod_end - timedelta(seconds=RESERVE_SECONDS))
