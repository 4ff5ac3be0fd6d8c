"""What a registry's words at a failed pull mean, and who must act. Pure."""

from __future__ import annotations

import re

from iris_runtimes.errors import (
    ImageInvalid,
    ImageNotFound,
    ImagePullFailed,
    ImageUnauthorized,
    NodeFault,
    RuntimeFault,
)

_REFUSED = re.compile(r"\b40[13] (unauthorized|forbidden)|authorization failed|access denied|insufficient_scope")
_MISSING = re.compile(r"\b404 not found|: not found$|manifest unknown|name unknown")
_MALFORMED = re.compile(r"invalid reference|unsupported mediatype|no match for platform|no unpack platforms|media type")
# containerd's long way of naming what it did: the reference is named by us already
_PREFIX = re.compile(r'^failed to (?:resolve image|pull and unpack image "[^"]*"|copy|do request): ')


def meaning_of(reference: str, words: str, *, with_secret: bool) -> RuntimeFault:
    """The typed error of those words; ImagePullFailed when they are new to us."""
    text = words.lower()
    while (shorter := _PREFIX.sub("", words)) != words:
        words = shorter
    if _REFUSED.search(text):
        how = "with the pull secret given" if with_secret else "without a pull secret"
        return ImageUnauthorized(f"the registry refuses image {reference} {how}: {words}")
    if _MALFORMED.search(text):
        return ImageInvalid(f"image {reference} can't be used here: {words}")
    if _MISSING.search(text):
        return ImageNotFound(f"the registry has no image {reference}")
    if "no space left on device" in text:
        return NodeFault(f"the node's disk is full, image {reference} does not fit: {words}")
    return ImagePullFailed(f"image {reference} could not be pulled: {words or 'no word why'}")
