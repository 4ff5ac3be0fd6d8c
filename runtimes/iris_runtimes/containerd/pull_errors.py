"""The typed error of a pull that failed in containerd."""

from __future__ import annotations

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import status_of, translate
from iris_runtimes.errors import ImageInvalid, ImageNotFound, ImagePullFailed, RuntimeFault, RuntimeUnavailable
from iris_runtimes.pull_words import meaning_of

_BY_CODE: dict[rpc.StatusCode, type[RuntimeFault]] = {
    rpc.StatusCode.INVALID_ARGUMENT: ImageInvalid,
    rpc.StatusCode.NOT_FOUND: ImageNotFound,
}


def pull_error(reference: str, error: rpc.RpcError, *, with_secret: bool) -> RuntimeFault:
    """RuntimeUnavailable when containerd did not answer; else what the words mean, or when they say nothing, the code."""
    code, words = status_of(error)
    general = translate(error)
    if (
        isinstance(general, RuntimeUnavailable) and "http" not in words.lower()
    ):  # a registry's 503 may come as UNAVAILABLE
        return general
    found = meaning_of(reference, words or code.name, with_secret=with_secret)
    if isinstance(found, ImagePullFailed) and code in _BY_CODE:
        return _BY_CODE[code](str(found))
    return found
