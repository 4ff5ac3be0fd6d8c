"""Images that the pull tests put into their registry."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from iris_devcluster import command
from iris_devcluster.images import oci
from iris_devcluster.images.binary import task_image
from iris_devcluster.images.programs import program
from iris_devcluster.images.store import Store
from iris_devcluster.images.tree import Entry, write_tar

FOREIGN_ARCHITECTURE = "s390x"


class Pusher:
    """Builds images in a folder and pushes them to a registry without a password, over plain http."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._crane = str(program("crane"))
        self._busybox = task_image({}, store=Store(folder / "store"))
        self._count = 0
        self.layer_digests: set[str] = set()

    def busybox(self, name: str, *layers: list[Entry], config: oci.Config | None = None) -> None:
        """busybox with more layers on top."""
        top = [self._layer(entries) for entries in layers]
        config = config or oci.Config(cmd=("/bin/sh",))
        self._push(oci.assemble([*self._busybox.layers, *top], config), name)

    def layers(self, name: str, *layers: list[Entry]) -> None:
        """An image of those layers; entries that are the same make the same layer."""
        self._push(oci.assemble([self._layer(entries) for entries in layers], oci.Config(cmd=("/none",))), name)

    def random(self, name: str, size_bytes: int) -> None:
        """An image of one file that can't be compressed and that no other image shares."""
        layer = self._layer([Entry("noise", os.urandom(size_bytes))])
        self._push(oci.assemble([layer], oci.Config(cmd=("/noise",))), name)

    def foreign(self, name: str) -> None:
        """An index whose only image is for another architecture."""
        image = oci.assemble([self._layer([Entry("hello", b"hello")])], oci.Config(cmd=("/hello",)))
        config = json.loads(image.config) | {"architecture": FOREIGN_ARCHITECTURE}
        raw = json.dumps(config).encode()
        manifest = json.loads(image.manifest)
        manifest["config"] |= {"digest": oci.digest_of(raw), "size": len(raw)}
        self._push(replace(image, config=raw, manifest=json.dumps(manifest).encode()), f"{name}-one")
        one, all_of_them = self._full(f"{name}-one"), self._full(name)
        command.run([self._crane, "index", "append", "--insecure", "-m", one, "-t", all_of_them])

    def _push(self, image: oci.Image, name: str) -> None:
        self._count += 1
        layout = self._folder / f"layout-{self._count}"
        oci.write_layout(layout, image)
        self.layer_digests |= {layer["digest"] for layer in json.loads(image.manifest)["layers"]}
        command.run([self._crane, "push", "--insecure", str(layout), self._full(name)])

    def _layer(self, entries: list[Entry]) -> oci.Layer:
        self._count += 1
        path = self._folder / f"layer-{self._count}.tar"
        write_tar(path, entries)
        return oci.Layer.of(path)

    def _full(self, name: str) -> str:
        return f"{self._address}/{name}"
