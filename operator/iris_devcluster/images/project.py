"""The small top layer: this source tree's own packages and the one command of the image."""

from __future__ import annotations

import configparser
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from iris_devcluster.errors import DevclusterError
from iris_devcluster.images import compiled
from iris_devcluster.images.oci import Layer
from iris_devcluster.images.recipe import PythonImage, Recipe, Selection
from iris_devcluster.images.store import Store
from iris_devcluster.images.tree import Entry, read_folder, write_folder, write_tar
from iris_devcluster.images.wheels import site_packages, unpack

_SCRIPT = """\
#!/usr/bin/python{version}
import sys

from {module} import {function}

if __name__ == "__main__":
    sys.exit({function}())
"""
_SOURCES = ("operator", "runtimes/iris_runtimes", "pyproject.toml", "hatch_build.py", "README.md")
_GENERATED = re.compile(r".*(_pb2(_grpc)?\.pyi?|\.pyc)$")


def project_layer(recipe: Recipe, image: PythonImage, python: compiled.Python, store: Store, wheel: Path) -> Layer:
    """The layer of our own code for one image, from the cache or newly made."""
    content = hashlib.sha256(wheel.read_bytes()).hexdigest()
    path = store.path("project", content, image.entrypoint, list(image.packages), list(recipe.wheels.drop))
    if not store.has(path):
        with store.making(path) as partial:
            files, place = partial / "files", site_packages(recipe.base)
            entries = list(unpack(wheel, place, _ours(image, place, recipe.wheels)))
            write_folder(files, [*entries, _command(recipe, image, wheel)])
            python.compile(files, [place])
            write_tar(partial / "layer.tar", read_folder(files))
            shutil.rmtree(files)
    return Layer.of(path / "layer.tar", f"iris {recipe.version}")


def project_wheel(recipe: Recipe, store: Store) -> Path:
    """The wheel of the source tree as it is now; built only when a file of it changed."""
    path = store.path("wheel", recipe.version, _fingerprint(recipe.source))
    if not store.has(path):
        with store.making(path) as partial:
            _build(recipe.source, partial)
    return next(path.glob("*.whl"))


def _build(source: Path, target: Path) -> None:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    done = subprocess.run(argv, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not list(target.glob("*.whl")):
        raise DevclusterError(
            f"building the wheel of {source} failed (pip install -e '.[dev]'?):\n{done.stderr[-2000:]}"
        )


def _fingerprint(source: Path) -> str:
    total = hashlib.sha256()
    for name in _SOURCES:
        for path in _files(source / name):
            total.update(f"{path.relative_to(source)}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for each in sorted(path.rglob("*")) if path.is_dir() else ():
        if each.is_file() and not _GENERATED.match(each.name):
            yield each


def _ours(image: PythonImage, place: str, common: Selection) -> Selection:
    packages = "|".join(map(re.escape, image.packages))
    keep = [
        rf"{re.escape(place)}/({packages})/.*",
        rf"{re.escape(place)}/[^/]+\.dist-info/(METADATA|entry_points\.txt)",
    ]
    return Selection(keep, common.drop)


def _command(recipe: Recipe, image: PythonImage, wheel: Path) -> Entry:
    """The console script, with the image's Python and no shell."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/entry_points.txt"))
        points = configparser.ConfigParser()
        points.read_string(archive.read(name).decode())
    target = points.get("console_scripts", image.entrypoint, fallback=None)
    if target is None:
        raise DevclusterError(f"pyproject.toml has no script {image.entrypoint}, which image {image.name} starts")
    module, _, function = target.partition(":")
    text = _SCRIPT.format(version=recipe.base.python, module=module, function=function)
    return Entry(f"usr/local/bin/{image.entrypoint}", text.encode(), 0o755)
