"""What layers and a configuration become: an image by the OCI specification."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from iris_devcluster.images.oci import Config, Image, Layer, assemble, digest_of, write_archive, write_layout
from iris_devcluster.images.tree import Entry, write_tar


@pytest.fixture
def image(tmp_path: Path) -> Image:
    layers = []
    for name in ("lower", "upper"):
        write_tar(tmp_path / name, [Entry(name, name.encode())])
        layers.append(Layer.of(tmp_path / name, name))
    config = Config(entrypoint=("run",), env={"B": "2", "A": "1"}, user="65532:65532", labels={"title": "x"})
    return assemble(layers, config)


def test_the_configuration_says_how_to_start_and_what_the_layers_hold(image: Image) -> None:
    config = json.loads(image.config)
    assert config["config"] == {
        "Entrypoint": ["run"],
        "Env": ["A=1", "B=2"],
        "User": "65532:65532",
        "WorkingDir": "/",
        "Labels": {"title": "x"},
    }
    assert config["rootfs"]["diff_ids"] == [layer.digest for layer in image.layers]
    assert len(config["history"]) == 2
    assert config["os"] == "linux"


def test_digest_and_tag_follow_the_content_alone(image: Image) -> None:
    again = assemble(
        image.layers, Config(entrypoint=("run",), env={"A": "1", "B": "2"}, user="65532:65532", labels={"title": "x"})
    )
    other = assemble(image.layers, Config(entrypoint=("walk",)))
    assert again.digest == image.digest
    assert other.tag != image.tag
    assert image.tag == f"sha-{image.digest.removeprefix('sha256:')[:16]}"


def test_a_layout_holds_every_blob_under_its_own_hash(image: Image, tmp_path: Path) -> None:
    write_layout(tmp_path / "layout", image)
    blobs = {path.name: path.read_bytes() for path in (tmp_path / "layout/blobs/sha256").iterdir()}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())
    manifest = json.loads(blobs[image.digest.removeprefix("sha256:")])
    named = [manifest["config"], *manifest["layers"]]
    assert {each["digest"].removeprefix("sha256:") for each in named} < set(blobs)
    assert all(len(blobs[each["digest"].removeprefix("sha256:")]) == each["size"] for each in named)
    index = json.loads((tmp_path / "layout/index.json").read_text())
    assert [each["digest"] for each in index["manifests"]] == [image.digest]


def test_an_archive_names_the_image_for_containerd_and_for_docker(image: Image, tmp_path: Path) -> None:
    names = ["registry.iris:5000/iris/agent:sha-1", "registry.iris:5000/iris/agent:dev"]
    write_archive(tmp_path / "image.tar", image, names)
    with tarfile.open(tmp_path / "image.tar") as archive:
        content = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    index = json.loads(content["index.json"])
    assert [each["annotations"]["io.containerd.image.name"] for each in index["manifests"]] == names
    (docker,) = json.loads(content["manifest.json"])
    assert docker["RepoTags"] == names
    assert content[docker["Config"]] == image.config
    assert [digest_of(content[each]) for each in docker["Layers"]] == [layer.digest for layer in image.layers]
