"""`python -m iris_devcluster.images`: the same as `iris-devcluster images`."""

from iris_devcluster.images.cli import images

images(prog_name="iris-devcluster images")
