"""The Kubernetes API as Iris uses it. Bodies are JSON objects; models are made of them at the edge (api/)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """A resource type: where its objects live in the API."""

    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """URL path of the collection (no name), one object, or its subresource. namespace None: all of them."""
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{scope}/{self.plural}", name, subresource) if part)


IRIS_CLUSTERS = Kind("iris.dev/v1alpha1", "irisclusters")
SCALE_GROUPS = Kind("iris.dev/v1alpha1", "scalegroups")
SLICES = Kind("iris.dev/v1alpha1", "slices")
TASKS = Kind("iris.dev/v1alpha1", "tasks")
NODEPOOLS = Kind("compute.coreweave.com/v1alpha1", "nodepools", namespaced=False)
NODES = Kind("v1", "nodes", namespaced=False)
PODS = Kind("v1", "pods")
SECRETS = Kind("v1", "secrets")
CONFIG_MAPS = Kind("v1", "configmaps")
LEASES = Kind("coordination.k8s.io/v1", "leases")
EVENTS = Kind("events.k8s.io/v1", "events")
ENDPOINT_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)
API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
ACCESS_REVIEWS = Kind("authorization.k8s.io/v1", "subjectaccessreviews", namespaced=False)


@dataclass(frozen=True)
class WatchEvent:
    """One change of a watched collection. BOOKMARK bodies carry only the resourceVersion."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    body: Body


@dataclass(frozen=True)
class Listing:
    """A collection at one resourceVersion."""

    items: list[dict[str, Any]]
    resource_version: str


class KubeApi(Protocol):
    """Calls raise ports.errors.ApiError subclasses, UnavailableError when the server can't be reached."""

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object."""
        ...

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """All objects that match the selectors."""
        ...

    def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Changes since `resource_version`; ends when the server closes the watch. GoneError when too old."""
        ...

    async def create(self, kind: Kind, body: Body, namespace: str | None = None) -> dict[str, Any]:
        """Make an object. ConflictError when it exists."""
        ...

    async def apply(self, kind: Kind, body: Body, *, manager: str, namespace: str | None = None) -> dict[str, Any]:
        """Server-side apply, owning the fields given (force)."""
        ...

    async def patch(
        self, kind: Kind, name: str, patch: Body, *, namespace: str | None = None, subresource: str = ""
    ) -> dict[str, Any]:
        """JSON merge patch; with metadata.resourceVersion in it, ConflictError when the object changed since."""
        ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Ask for deletion (of just that uid, at just that version, when given: else ConflictError).

        NotFoundError when it is gone already.
        """
        ...
