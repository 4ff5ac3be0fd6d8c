"""Whether containerd knows NVIDIA's runtime: its settings for the kubelet name the program."""

from __future__ import annotations

import json
import logging

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import status_of
from iris_runtimes.containerd.gpus import nvidia_program
from iris_runtimes.containerd.proto import cri_pb2

log = logging.getLogger(__name__)

_SECONDS = 10.0


class NvidiaRuntime:
    """`program`: as known beforehand; empty: ask when it is needed, until there is one."""

    def __init__(self, channel: rpc.Channel, program: str = "") -> None:
        self._kubelets = rpc.Service(channel, cri_pb2, "RuntimeService")
        self._program = program

    async def program(self) -> str:
        """As containerd finds it; empty when there is none, or containerd serves no kubelet."""
        if not self._program:
            try:
                answer = await self._kubelets.Status(cri_pb2.StatusRequest(verbose=True), timeout=_SECONDS)
                self._program = nvidia_program(json.loads(answer.info.get("config") or "{}"))
            except rpc.RpcError as error:
                log.debug("asking containerd for NVIDIA's runtime: %s", status_of(error)[1])
            except (ValueError, AttributeError) as error:
                log.warning("containerd's settings for the kubelet can't be read: %s", error)
        return self._program
