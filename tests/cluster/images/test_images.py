"""The real images of this checkout: they start, and two builds are the same. Needs the package indexes, or the cache."""

from __future__ import annotations

import tarfile
import time
from pathlib import Path

import pytest

from iris_devcluster.images import recipe
from iris_devcluster.images.build import Built, build_images
from iris_devcluster.images.compiled import Python
from iris_devcluster.images.debian import base_layer
from iris_devcluster.images.project import project_layer, project_wheel
from iris_devcluster.images.recipe import Recipe
from iris_devcluster.images.store import Store

pytestmark = pytest.mark.cluster

_SOURCE = Path(__file__).parents[3]
_BASE_BYTES, _IMAGE_BYTES = 60e6, 150e6
_STARTS = {
    "operator": ("import iris_operator.app, kubernetes_asyncio.config", "iris-operator"),
    "agent": ("import aiohttp, google.protobuf, pydantic, yaml", "iris-agent"),
}


@pytest.fixture(scope="module")
def images() -> dict[str, Built]:
    return {each.name: each for each in build_images(_SOURCE)}


@pytest.fixture(scope="module")
def plan() -> Recipe:
    return recipe.load(_SOURCE)


def _unpack(built: Built, folder: Path) -> Path:
    for layer in built.image.layers:
        with tarfile.open(layer.path) as archive:
            archive.extractall(folder, filter="tar")
    return folder


@pytest.mark.parametrize("name", ["operator", "agent"])
class TestPythonImage:
    def test_runs_with_nothing_but_its_own_files(self, images: dict[str, Built], name: str, tmp_path: Path) -> None:
        root = _unpack(images[name], tmp_path)
        packages = [root / "usr/local/lib/python3.11/dist-packages"]
        statement, script = _STARTS[name]
        check = (
            f"import ssl; assert ssl.OPENSSL_VERSION; {statement}; import iris_operator; print(iris_operator.__file__)"
        )
        assert str(root) in Python(root, "3.11").run(["-c", check], packages)
        assert (root / "usr/local/bin" / script).read_text().startswith("#!/usr/bin/python3.11\n")

    def test_has_certificates_and_no_shell(self, images: dict[str, Built], name: str, tmp_path: Path) -> None:
        root = _unpack(images[name], tmp_path)
        assert (root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 100
        assert not [each for each in ("sh", "bash", "dash", "apt", "dpkg", "pip") if (root / "usr/bin" / each).exists()]

    def test_has_every_module_compiled(self, images: dict[str, Built], name: str, tmp_path: Path) -> None:
        root = _unpack(images[name], tmp_path)
        for folder in ("iris_operator", "aiohttp", "pydantic"):
            sources = list((root / "usr/local/lib/python3.11/dist-packages" / folder).rglob("*.py"))
            assert sources
            assert all((each.parent / "__pycache__" / f"{each.stem}.cpython-311.pyc").exists() for each in sources)

    def test_is_small(self, images: dict[str, Built], name: str) -> None:
        image = images[name].image
        assert image.layers[0].size < _BASE_BYTES
        assert image.size < _IMAGE_BYTES
        assert image.layers[-1].size < 8e6

    def test_leaves_the_embedded_cluster_out(self, images: dict[str, Built], name: str) -> None:
        with tarfile.open(images[name].image.layers[-1].path) as archive:
            assert not [each for each in archive.getnames() if "iris_devcluster" in each]


def test_the_task_image_has_a_shell_and_its_commands(images: dict[str, Built], tmp_path: Path) -> None:
    root = _unpack(images["task"], tmp_path)
    for name in ("bin/sh", "bin/true", "bin/echo", "bin/sleep"):
        assert str((root / name).readlink()) == "/bin/busybox"
    assert images["task"].image.size < 4e6


def test_a_second_build_takes_moments_and_changes_nothing(images: dict[str, Built]) -> None:
    began = time.monotonic()
    again = build_images(_SOURCE)
    assert time.monotonic() - began < 5
    # Code may have changed in between, where several people work in one tree; the layers below may not.
    below = [[layer.digest for layer in each.image.layers[:2]] for each in again]
    assert below == [[layer.digest for layer in images[each.name].image.layers[:2]] for each in again]


def test_two_layers_of_our_code_are_the_same(images: dict[str, Built], plan: Recipe, tmp_path: Path) -> None:
    stores = [Store(tmp_path / name) for name in ("a", "b")]
    python, wheel = base_layer(plan.base, Store()).python, project_wheel(plan, stores[0])
    layers = [project_layer(plan, plan.images["agent"], python, store, wheel) for store in stores]
    assert layers[0].digest == layers[1].digest


@pytest.mark.soak  # Debian's packages fetched and compiled twice
def test_two_bases_from_nothing_are_the_same(plan: Recipe, tmp_path: Path) -> None:
    bases = [base_layer(plan.base, Store(tmp_path / name)) for name in ("a", "b")]
    assert bases[0].layer.digest == bases[1].layer.digest
