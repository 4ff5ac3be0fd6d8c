"""The typed error of a start that failed in containerd."""

from __future__ import annotations

from iris_runtimes import rpc
from iris_runtimes.containerd.channel import status_of, translate
from iris_runtimes.errors import RuntimeFault, RuntimeUnavailable
from iris_runtimes.start_words import meaning_of


def start_error(error: rpc.RpcError, command: str, image: str) -> RuntimeFault:
    """RuntimeUnavailable when containerd did not answer, else what runc's words mean."""
    translated = translate(error)
    if isinstance(translated, RuntimeUnavailable):
        return translated
    return meaning_of(status_of(error)[1], command, image)
