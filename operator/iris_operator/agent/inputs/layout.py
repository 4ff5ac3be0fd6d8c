"""Where inputs lie on the node, as the agent sees it and as the runtime does. Pure.

<cache>/attempts/<uid>/<attempt>/volumes/<volume>/   emptyDir on disk
                                 files/<volume>/     a ConfigMap's files
                                 bundle/             a bundle that is no archive
                                 bundle.digest       which of <cache>/bundles/ is mounted: it is kept while this is here
<cache>/bundles/<sha256>/                            unpacked archives, for all
<cache>/shared/<namespace>/<name>/                   node caches
/run/iris/secrets/<uid>/<attempt>/<volume>/          Secrets' files: a tmpfs of the worker Pod
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from iris_operator.api.names import AGENT_CLAIMS_DIR, AGENT_HOST_DIR, AGENT_SECRETS_DIR
from iris_runtimes.protocol import Mount


@dataclass(frozen=True)
class Root:
    """A folder of the node that the worker Pod was given: the agent's path, and the node's for the runtime."""

    agent: Path
    node: str
    read_only: bool = False


@dataclass(frozen=True)
class Layout:
    """`given`: by the agent's path, what the worker Pod mounts."""

    cache: Path
    given: tuple[Mount, ...] = ()

    def attempt(self, uid: str, attempt: int) -> Path:
        """One attempt's folder."""
        return self.attempts / uid / str(attempt)

    @property
    def attempts(self) -> Path:
        """Folder with one folder per Task uid."""
        return self.cache / "attempts"

    @property
    def bundles(self) -> Path:
        """Folder with one folder per digest."""
        return self.cache / "bundles"

    @property
    def trash(self) -> Path:
        """Where what is removed lies until it is."""
        return self.cache / "trash"

    def node_cache(self, namespace: str, name: str) -> Path:
        """A cache of the namespace; without a name the one named default."""
        return self.cache / "shared" / namespace / (name or "default")

    @property
    def secrets(self) -> Root | None:
        """The tmpfs for Secrets' files; None when the worker Pod has none."""
        return self._root(AGENT_SECRETS_DIR)

    def claim(self, name: str) -> Root | None:
        """A PersistentVolumeClaim of the worker Pod; None when it has none of that name."""
        return self._root(f"{AGENT_CLAIMS_DIR}/{name}")

    def host(self, path: str) -> tuple[Root, tuple[str, ...]] | None:
        """The allowed folder that a node's path lies in, and the path's parts below it; None: in none."""
        inside = PurePosixPath(AGENT_HOST_DIR + path)
        fitting = [one for one in self.given if _is_host(one) and inside.is_relative_to(one.container_path)]
        if not fitting:
            return None
        best = max(fitting, key=lambda one: len(one.container_path))
        below = inside.relative_to(best.container_path).parts
        return Root(Path(best.container_path), best.host_path, best.read_only), below

    @property
    def allowed_host_paths(self) -> Sequence[str]:
        """The node's paths that Tasks may mount, as the policy wrote them."""
        return [one.container_path.removeprefix(AGENT_HOST_DIR) or "/" for one in self.given if _is_host(one)]

    def _root(self, path: str) -> Root | None:
        found = next((one for one in self.given if one.container_path == path), None)
        return Root(Path(path), found.host_path, found.read_only) if found is not None else None


def _is_host(mount: Mount) -> bool:
    return PurePosixPath(mount.container_path).is_relative_to(AGENT_HOST_DIR)
