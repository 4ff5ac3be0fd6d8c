"""Puts the vendor's kind, and the simulator's refusals, into the API server."""

from __future__ import annotations

import asyncio
import logging
from importlib import resources
from typing import Any

import yaml

from iris_devcluster.coreweave.controller.apply import POOLS
from iris_devcluster.coreweave.kube import KubeClient, KubeError

log = logging.getLogger(__name__)

_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
_RETRY_SECONDS = 0.3


def manifests() -> list[dict[str, Any]]:
    """All objects to install, the CRD first."""
    data = resources.files("iris_devcluster.coreweave") / "data"
    names = ("nodepool_crd.yaml", "refusals.yaml")
    return [body for name in names for body in yaml.safe_load_all((data / name).read_text())]


async def install(kube: KubeClient) -> None:
    """Apply them and return when NodePools can be listed; waits for an API server that isn't there yet."""
    for body in manifests():
        path = f"{_PATHS[body['kind']]}/{body['metadata']['name']}"
        await _until_answered(kube, path, body)
    while True:
        try:
            await kube.request("GET", POOLS)
        except KubeError as error:
            if error.status not in (0, 404, 429, 503):
                raise
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


async def _until_answered(kube: KubeClient, path: str, body: dict[str, Any]) -> None:
    while True:
        try:
            await kube.apply(path, body)
        except KubeError as error:
            if error.status and error.status < 500:
                raise
            log.warning("%s", error)
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return
