"""What the vendor refuses after admission: Validated=False, and no machine is ever assigned."""

from __future__ import annotations

from iris_devcluster.coreweave.catalogue import Catalogue
from iris_devcluster.coreweave.model import Pool
from iris_devcluster.coreweave.settings import Settings

_RESERVED = ("coreweave.com", "coreweave.cloud")
_KUBERNETES = ("kubernetes.io", "k8s.io")
_KUBELET_MAY_SET = ("kubelet.kubernetes.io", "node.kubernetes.io")


def problem(pool: Pool, catalogue: Catalogue, settings: Settings) -> str:
    """Why the NodePool can't be served, empty when it can."""
    kind = catalogue.get(pool.instance_type)
    if kind is None:
        return f"instance type does not exist in zone {settings.zone}: {pool.instance_type}"
    if pool.target_racks is not None and not kind.has_racks:
        return f"targetRacks is only available for NVL72-powered instance types, not for {pool.instance_type}"
    keys = [*pool.labels, *(taint["key"] for taint in pool.taints)]
    reserved = [key for key in keys if _within(key, _RESERVED)]
    if reserved:
        return f"labels and taints of coreweave.com and coreweave.cloud are reserved: {', '.join(reserved)}"
    refused = [key for key in pool.labels if _within(key, _KUBERNETES) and not _within(key, _KUBELET_MAY_SET)]
    if refused:
        return f"a kubelet may not set these labels: {', '.join(refused)}"
    return ""


def _within(key: str, domains: tuple[str, ...]) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and any(prefix == domain or prefix.endswith("." + domain) for domain in domains)
