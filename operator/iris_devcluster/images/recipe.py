"""What goes into the images: runtimes/images/recipe.yaml, and the pins of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from iris_devcluster.errors import DevclusterError

FOLDER = Path("runtimes/images")


@dataclass(frozen=True)
class Selection:
    """Which paths to take: those that match a `keep` and no `drop`, all by whole path."""

    keep: Sequence[str]
    drop: Sequence[str]

    def takes(self, path: str) -> bool:
        return _any(self.keep, path) and not _any(self.drop, path)


@dataclass(frozen=True)
class Base:
    """The Debian part that Python images stand on."""

    suite: str
    python: str
    packages: Sequence[str]
    selection: Selection


@dataclass(frozen=True)
class PythonImage:
    """One image of ours: some of the project's dependencies, some of its packages, one command.

    `busybox`: where a static busybox lies in it; empty: nowhere.
    """

    name: str
    dependencies: Sequence[str]
    packages: Sequence[str]
    entrypoint: str
    user: int
    labels: Mapping[str, str]
    busybox: str = ""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what the images of the source tree at `source` contain."""

    source: Path
    version: str
    base: Base
    wheels: Selection
    images: Mapping[str, PythonImage]
    task_labels: Mapping[str, str]
    pins: Mapping[str, str]

    def lock(self, image: str) -> Path:
        """The image's exact packages with their checksums, direct and indirect ones."""
        return self.source / FOLDER / f"{image}.lock"


def find_source(start: Path) -> Path:
    """The checkout that `start` is in, or the one that this module is in; raises DevclusterError without one."""
    for place in (start.resolve(), Path(__file__).resolve()):
        for folder in (place, *place.parents):
            if (folder / FOLDER / "recipe.yaml").exists():
                return folder
    raise DevclusterError(f"{start} is in no checkout of Iris: images are built from its sources; give --source")


def load(source: Path) -> Recipe:
    """Read the recipe; raises DevclusterError when a dependency has no exact pin in pyproject.toml."""
    raw = yaml.safe_load((source / FOLDER / "recipe.yaml").read_text())
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    pins = _pins(project["dependencies"])
    base = raw["base"]
    return Recipe(
        source=source,
        version=project["version"],
        base=Base(base["suite"], base["python"], base["packages"], Selection(base["keep"], base["drop"])),
        wheels=Selection([".*"], raw["wheels_drop"]),
        images={name: _image(name, value, pins) for name, value in raw["images"].items()},
        task_labels=raw["task"]["labels"],
        pins=pins,
    )


def canonical(name: str) -> str:
    """A Python package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _image(name: str, raw: Mapping[str, Any], pins: Mapping[str, str]) -> PythonImage:
    dependencies = [canonical(each) for each in raw["dependencies"]]
    for each in dependencies:
        if each not in pins:
            raise DevclusterError(f"image {name} wants {each}, which pyproject.toml does not pin with ==")
    return PythonImage(
        name, dependencies, raw["packages"], raw["entrypoint"], raw["user"], raw["labels"], raw.get("busybox", "")
    )


def _pins(requirements: Iterable[str]) -> dict[str, str]:
    pairs = (each.partition("==") for each in requirements)
    return {canonical(name.strip()): version.strip() for name, _, version in pairs if version}


def _any(patterns: Iterable[str], path: str) -> bool:
    return any(re.fullmatch(pattern, path) for pattern in patterns)
