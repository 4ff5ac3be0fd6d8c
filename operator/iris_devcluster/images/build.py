"""The images of a source tree: operator, agent and task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster.errors import DevclusterError
from iris_devcluster.images import oci, recipe
from iris_devcluster.images.binary import busybox_layer, task_image
from iris_devcluster.images.debian import DebianBase, base_layer
from iris_devcluster.images.project import project_layer, project_wheel
from iris_devcluster.images.recipe import PythonImage, Recipe
from iris_devcluster.images.store import Store
from iris_devcluster.images.wheels import wheels_layer
from iris_devcluster.progress import Progress

NAMES = ("operator", "agent", "task")


@dataclass(frozen=True)
class Built:
    """One image with the names it goes by: repository `iris/<name>`, and the tags that mean it."""

    name: str
    image: oci.Image
    version: str

    @property
    def repository(self) -> str:
        return f"iris/{self.name}"

    @property
    def tags(self) -> tuple[str, ...]:
        """By content, by version, and `dev` for whatever was built last."""
        return (self.image.tag, self.version, "dev")


def build_images(
    source: Path, names: Sequence[str] = NAMES, store: Store | None = None, progress: Progress | None = None
) -> list[Built]:
    """Build the named images from a checkout. Only what changed since the last build is made anew.

    Raises DevclusterError for an unknown name and for whatever keeps a part from being fetched or built.
    """
    for name in names:
        if name not in NAMES:
            raise DevclusterError(f"no image {name}; there are: {', '.join(NAMES)}")
    plan, store = recipe.load(source), store or Store()
    progress = progress or Progress()
    with store.lock():
        store.prune()
        builder = _Builder(plan, store, progress)
        return [Built(name, builder.image(name), plan.version) for name in names]


class _Builder:
    """One run; what images share is made once."""

    def __init__(self, plan: Recipe, store: Store, progress: Progress) -> None:
        self._plan, self._store, self._progress = plan, store, progress
        self._shared: tuple[DebianBase, Path] | None = None

    def image(self, name: str) -> oci.Image:
        with self._progress.step(f"image iris/{name}") as step:
            if name == "task":
                image = task_image(self._plan.task_labels, store=self._store)
            else:
                step.update("the base")
                base, wheel = self._base_and_wheel()
                wanted = self._plan.images[name]
                step.update("its packages")
                packages = wheels_layer(self._plan, wanted, base.python, self._store)
                step.update("our own code")
                ours = project_layer(self._plan, wanted, base.python, self._store, wheel)
                tools = [busybox_layer(wanted.busybox, store=self._store)] if wanted.busybox else []
                image = oci.assemble([base.layer, packages, *tools, ours], config(self._plan, wanted))
            step.note = f"{image.size / 1e6:.0f} MB, {image.tag}"
            return image

    def _base_and_wheel(self) -> tuple[DebianBase, Path]:
        if self._shared is None:
            self._shared = base_layer(self._plan.base, self._store), project_wheel(self._plan, self._store)
        return self._shared


def config(plan: Recipe, image: PythonImage) -> oci.Config:
    """How a container of one of our images starts; the Dockerfiles agree with it."""
    return oci.Config(
        entrypoint=(image.entrypoint,),
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONUNBUFFERED": "1",  # a log line is seen when it is written
            "PYTHONDONTWRITEBYTECODE": "1",  # all is compiled, and the root file system is read-only
        },
        user=f"{image.user}:{image.user}",
        labels={**image.labels, "org.opencontainers.image.version": plan.version},
    )
