from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from iris_devcluster.errors import DevclusterError
from iris_devcluster.node.pause import write_pause_archive


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "busybox"
    path.write_bytes(b"\x7fELF static")
    return path


def test_the_archive_leads_from_name_to_program(tmp_path: Path, binary: Path) -> None:
    write_pause_archive(tmp_path / "pause.tar", "iris.dev/pause:1", binary)
    with tarfile.open(tmp_path / "pause.tar") as archive:

        def load(digest: str) -> object:
            file = archive.extractfile("blobs/" + digest.replace(":", "/"))
            assert file is not None
            return json.load(file)

        index_file = archive.extractfile("index.json")
        assert index_file is not None
        entry = json.load(index_file)["manifests"][0]
        assert entry["annotations"]["io.containerd.image.name"] == "iris.dev/pause:1"
        manifest = load(entry["digest"])
        assert isinstance(manifest, dict)
        config = load(manifest["config"]["digest"])
        assert isinstance(config, dict)
        assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]


def test_the_same_program_gives_the_same_bytes(tmp_path: Path, binary: Path) -> None:
    for name in ("one", "two"):
        write_pause_archive(tmp_path / name, "r", binary)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_dynamic_busybox_is_refused(tmp_path: Path, binary: Path) -> None:
    binary.write_bytes(b"\x7fELF.../lib64/ld-linux-x86-64.so.2")
    with pytest.raises(DevclusterError, match="busybox-static"):
        write_pause_archive(tmp_path / "pause.tar", "r", binary)
