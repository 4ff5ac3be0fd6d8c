"""Images to where nodes get them: a registry, or archives to import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from iris_devcluster import command
from iris_devcluster.images import oci
from iris_devcluster.images.build import Built
from iris_devcluster.images.programs import program
from iris_devcluster.images.store import Store


def push(
    built: Built, registry: str, tags: Sequence[str] = (), insecure: bool = False, store: Store | None = None
) -> str:
    """Push under all its tags, or those given, to `registry` (host, or host/prefix); returns the first reference.

    `insecure`: plain http. Credentials are those of `docker login` or `crane auth login`. Raises CommandFailedError
    with crane's words.
    """
    crane, flags = str(program("crane")), ["--insecure"] if insecure else []
    first, *more = references(built, registry, tags)
    with (store or Store()).scratch() as folder:
        oci.write_layout(folder / built.name, built.image)
        command.run([crane, "push", *flags, str(folder / built.name), first])
    for each in more:
        command.run([crane, "tag", *flags, first, each.rpartition(":")[2]])
    return first


def save(built: Built, folder: Path, registry: str, tags: Sequence[str] = ()) -> Path:
    """Write `<folder>/iris-<name>.tar` for `ctr images import`, `docker load` or `kind load image-archive`.

    The image then goes by the references that it would have in `registry`.
    """
    path = folder / f"iris-{built.name}.tar"
    oci.write_archive(path, built.image, references(built, registry, tags))
    return path


def references(built: Built, registry: str, tags: Sequence[str] = ()) -> list[str]:
    """Full names of the image in that registry, the one by content first unless `tags` are given."""
    return [f"{registry}/{built.repository}:{tag}" for tag in tags or built.tags]


def helm_values(built: Sequence[Built], registry: str, tags: Sequence[str] = ()) -> str:
    """Values for charts/iris that name exactly these images, so that an upgrade is seen as one."""
    values: dict[str, object] = {"image": {"registry": registry}}
    for each in built:
        if each.name in ("operator", "agent"):
            values[each.name] = {"image": {"tag": (tags or each.tags)[0]}}
    return "# Written by iris-devcluster images\n" + yaml.safe_dump(values)
