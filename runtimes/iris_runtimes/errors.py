"""What can go wrong on a node, by who must act: the user (their image, command, limits) or the platform (node, runtime)."""

from __future__ import annotations

from typing import Literal


class RuntimeFault(Exception):
    """One line a person understands. `reason` is a CamelCase word for programs."""

    who: Literal["user", "platform"] = "platform"
    reason = "RuntimeFault"


class RuntimeUnavailable(RuntimeFault):
    """The runtime does not answer; nothing is known of its sandboxes. Try again."""

    reason = "RuntimeUnavailable"


class SandboxNotFound(RuntimeFault):
    """No sandbox of that id."""

    reason = "SandboxNotFound"


class ImageNotFound(RuntimeFault):
    """The registry, or with policy Never the node, has no such image."""

    who = "user"
    reason = "ImageNotFound"


class ImageUnauthorized(RuntimeFault):
    """The registry refuses: credentials are missing or wrong."""

    who = "user"
    reason = "ImageUnauthorized"


class ImageInvalid(RuntimeFault):
    """The reference is no reference, or the image can't run here (platform, unreadable configuration)."""

    who = "user"
    reason = "ImageInvalid"


class ImagePullFailed(RuntimeFault):
    """The registry could not be reached, or broke off. Try again."""

    reason = "ImagePullFailed"


class CommandNotFound(RuntimeFault):
    """The command is not in the image (a shell would exit 127)."""

    who = "user"
    reason = "CommandNotFound"


class CommandNotExecutable(RuntimeFault):
    """The command is in the image but can't be executed (a shell would exit 126)."""

    who = "user"
    reason = "CommandNotExecutable"


class InvalidSpec(RuntimeFault):
    """The runtime can't make a sandbox of this: a limit, a user, a directory."""

    who = "user"
    reason = "InvalidSpec"


class NodeFault(RuntimeFault):
    """The node failed at something that usually works: disk full, shim died."""

    reason = "NodeFault"
