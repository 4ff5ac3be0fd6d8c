"""What a registry's or containerd's words at a failed pull mean, and who must act."""

from __future__ import annotations

import re

import grpc

from iris_runtimes.containerd.channel import status_of, translate
from iris_runtimes.errors import (
    ImageInvalid,
    ImageNotFound,
    ImagePullFailed,
    ImageUnauthorized,
    NodeFault,
    RuntimeFault,
    RuntimeUnavailable,
)

_REFUSED = re.compile(r"\b40[13] (unauthorized|forbidden)|authorization failed|access denied|insufficient_scope")
_MISSING = re.compile(r"\b404 not found|: not found$|manifest unknown|name unknown")
_MALFORMED = re.compile(r"invalid reference|unsupported mediatype|no match for platform|no unpack platforms|media type")
# containerd's long way of naming what it did: the reference is named by us already
_PREFIX = re.compile(r'^failed to (?:resolve image|pull and unpack image "[^"]*"|copy|do request): ')


def pull_error(reference: str, error: grpc.aio.AioRpcError, *, with_secret: bool) -> RuntimeFault:
    """The typed error of a pull that failed."""
    code, words = status_of(error)
    text = words.lower()
    general = translate(error)
    if isinstance(general, RuntimeUnavailable) and "http" not in text:  # a registry's 503 may come as UNAVAILABLE
        return general
    while (shorter := _PREFIX.sub("", words)) != words:
        words = shorter
    if _REFUSED.search(text):
        how = "with the pull secret given" if with_secret else "without a pull secret"
        return ImageUnauthorized(f"the registry refuses image {reference} {how}: {words}")
    if _MALFORMED.search(text) or code is grpc.StatusCode.INVALID_ARGUMENT:
        return ImageInvalid(f"image {reference} can't be used here: {words}")
    if _MISSING.search(text) or code is grpc.StatusCode.NOT_FOUND:
        return ImageNotFound(f"the registry has no image {reference}")
    if "no space left on device" in text:
        return NodeFault(f"the node's disk is full, image {reference} does not fit: {words}")
    return ImagePullFailed(f"image {reference} could not be pulled: {words or code.name}")
