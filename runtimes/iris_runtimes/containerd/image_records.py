"""Records of images in one containerd namespace: their list, sizes, last use and removal. What they hold is in images.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import call_options, unless_gone
from iris_runtimes.containerd.image_config import ImageConfig
from iris_runtimes.containerd.maker import SNAPSHOTTER
from iris_runtimes.containerd.proto import containers_pb2, images_pb2, snapshots_pb2

# On the image, so that a new agent knows; written this seldom, for each start would cost a write to the disk.
LAST_USED_LABEL = "iris.dev/last-used"
_TOUCH_EVERY = timedelta(minutes=10)


class ImageRecords:
    """Calls raise rpc.RpcError."""

    def __init__(self, channel: rpc.Channel, namespace: str) -> None:
        self._call = call_options(namespace)
        self._images = rpc.Service(channel, images_pb2, "Images")
        self._containers = rpc.Service(channel, containers_pb2, "Containers")
        self._snapshots = rpc.Service(channel, snapshots_pb2, "Snapshots")
        self._used: dict[str, datetime] = {}
        self._written: dict[str, datetime] = {}
        self._sizes: dict[str, int] = {}

    async def all(self) -> list[Any]:
        """containerd's images."""
        return list((await self._images.List(images_pb2.ListImagesRequest(), **self._call)).images)

    async def get(self, name: str) -> Any | None:
        """One of them."""
        found = await unless_gone(self._images.Get(images_pb2.GetImageRequest(name=name), **self._call))
        return None if found is None else found.image

    async def held(self) -> set[str]:
        """The names, as written by their makers, of the images that sandboxes stand on."""
        answer = await self._containers.List(containers_pb2.ListContainersRequest(), **self._call)
        return {one.image for one in answer.containers}

    def note_use(self, name: str, now: datetime) -> None:
        """It is used now; so that this process knows."""
        self._used[name] = now

    async def touch(self, image: Any, now: datetime) -> None:
        """It is used now; so that the next process knows too, about."""
        self.note_use(image.name, now)
        if now - max(self._written.get(image.name, _labelled(image)), _labelled(image)) < _TOUCH_EVERY:
            return
        self._written[image.name] = now
        label = {LAST_USED_LABEL: now.isoformat()}
        # With its target, which the mask leaves alone: without one containerd (2.2.9) dies of a nil pointer
        request = images_pb2.UpdateImageRequest(
            image=images_pb2.Image(name=image.name, labels=label, target=image.target),
            update_mask=FieldMask(paths=[f"labels.{LAST_USED_LABEL}"]),
        )
        await unless_gone(self._images.Update(request, **self._call))

    def last_used(self, image: Any) -> datetime:
        """As far as is known: its last change at least."""
        changed: datetime = image.updated_at.ToDatetime(tzinfo=UTC)
        return max(self._used.get(image.name, changed), _labelled(image), changed)

    async def unpacked_bytes(self, config: ImageConfig) -> int:
        """What its snapshots take on the disk; of those that are there."""
        total = 0
        for key in config.chain:
            if key not in self._sizes:
                request = snapshots_pb2.UsageRequest(snapshotter=SNAPSHOTTER, key=key)
                usage = await unless_gone(self._snapshots.Usage(request, **self._call))
                if usage is None:
                    continue
                self._sizes[key] = int(usage.size)  # a committed snapshot never changes
            total += self._sizes[key]
        return total

    async def delete(self, name: str) -> None:
        """Returns when what only it held is off the disk."""
        await unless_gone(self._images.Delete(images_pb2.DeleteImageRequest(name=name, sync=True), **self._call))
        self._used.pop(name, None)
        self._written.pop(name, None)


def _labelled(image: Any) -> datetime:
    try:
        return datetime.fromisoformat(image.labels[LAST_USED_LABEL])
    except (KeyError, ValueError):
        return datetime.min.replace(tzinfo=UTC)
