"""Container images built without a container engine: layers are tar files that we write, an image is some JSON.

From the bottom up: `tree` (files of a layer, written so that equal files give equal bytes), `oci` (layers to image,
layout and archive), `recipe` (what goes in, read from runtimes/images), `debian`, `wheels`, `project`, `binary` (one
kind of layer each), `build` (the images of a source tree), `publish` (crane), `cli`.
"""

from __future__ import annotations

from iris_devcluster.images.binary import image_from_binary
from iris_devcluster.images.build import Built, build_images
from iris_devcluster.images.publish import push, save

__all__ = ["Built", "build_images", "image_from_binary", "push", "save"]
