"""What can go wrong on a node: whose fault it is, and who must act. docs/runtimes.md has the table, and a test compares it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Actor = Literal["user", "platform"]


class Fault(StrEnum):
    """What is at fault."""

    IMAGE = "image"
    COMMAND = "command"  # the command and how it is to run: user, directory, mounts
    LIMITS = "limits"
    REGISTRY = "registry"
    NODE = "node"
    RUNTIME = "runtime"


class RuntimeFault(Exception):
    """One line a person understands. `reason` is a CamelCase word for programs."""

    fault: Fault = Fault.RUNTIME
    who: Actor = "platform"
    reason = "RuntimeFault"


class RuntimeUnavailable(RuntimeFault):
    """The runtime does not answer; nothing is known of its sandboxes. Try again."""

    reason = "RuntimeUnavailable"


class NotSupported(RuntimeFault):
    """This runtime has no such thing. `field` is the field of protocol.SandboxSpec, or the call, that it can't honour."""

    who = "user"
    reason = "NotSupported"

    def __init__(self, runtime: str, field: str, why: str = "") -> None:
        super().__init__(f"the runtime {runtime} does not support {field}{': ' * bool(why)}{why}")
        self.field = field


class SandboxNotFound(RuntimeFault):
    """No sandbox of that id."""

    reason = "SandboxNotFound"


class SandboxNotRunning(RuntimeFault):
    """The sandbox has ended, or has not begun: nothing can be run in it."""

    fault = Fault.COMMAND
    who = "user"
    reason = "SandboxNotRunning"


class ImageNotFound(RuntimeFault):
    """The registry, or with policy Never the node, has no such image."""

    fault = Fault.IMAGE
    who = "user"
    reason = "ImageNotFound"


class ImageUnauthorized(RuntimeFault):
    """The registry refuses: credentials are missing or wrong."""

    fault = Fault.IMAGE
    who = "user"
    reason = "ImageUnauthorized"


class ImageInvalid(RuntimeFault):
    """The reference is no reference, or the image can't run here (platform, unreadable configuration)."""

    fault = Fault.IMAGE
    who = "user"
    reason = "ImageInvalid"


class ImageInUse(RuntimeFault):
    """A sandbox stands on the image, so it is not removed."""

    fault = Fault.IMAGE
    who = "user"
    reason = "ImageInUse"


class ImagePullFailed(RuntimeFault):
    """The registry could not be reached, or broke off. Try again."""

    fault = Fault.REGISTRY
    reason = "ImagePullFailed"


class CommandNotFound(RuntimeFault):
    """The command is not in the image (a shell would exit 127)."""

    fault = Fault.COMMAND
    who = "user"
    reason = "CommandNotFound"


class CommandNotExecutable(RuntimeFault):
    """The command is in the image but can't be executed (a shell would exit 126)."""

    fault = Fault.COMMAND
    who = "user"
    reason = "CommandNotExecutable"


class InvalidSpec(RuntimeFault):
    """The runtime can't make a sandbox of this: a user, a directory, a capability."""

    fault = Fault.COMMAND
    who = "user"
    reason = "InvalidSpec"


class InvalidLimits(InvalidSpec):
    """A limit that nothing can start with, or that this kernel does not know."""

    fault = Fault.LIMITS


class NodeFault(RuntimeFault):
    """The node failed at something that usually works: disk full, shim died, a device is missing."""

    fault = Fault.NODE
    reason = "NodeFault"
