"""The words of stream.iris.dev/v1alpha1 that both of its ends use: paths and the bytes of an exec. docs/designs/004."""

from __future__ import annotations

from enum import IntEnum

STREAM_API = "/apis/stream.iris.dev/v1alpha1"

PORT_END = "end"
"""Text message of a port-forward: nothing more comes from this side."""


class Channel(IntEnum):
    """The first byte of a message of an exec."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    END = 3
    RESIZE = 4
    END_OF_INPUT = 5

    @property
    def head(self) -> bytes:
        """That byte."""
        return bytes([self])


def task_stream(namespace: str, name: str, what: str) -> str:
    """Path of a Task's log, exec, portforward, stats or profile."""
    return f"{STREAM_API}/namespaces/{namespace}/tasks/{name}/{what}"


def slice_stream(namespace: str, name: str, what: str) -> str:
    """Path of the stats or images of a Slice's nodes."""
    return f"{STREAM_API}/namespaces/{namespace}/slices/{name}/{what}"
