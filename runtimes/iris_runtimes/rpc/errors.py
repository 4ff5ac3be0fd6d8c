"""How a call ends."""

from __future__ import annotations

from enum import IntEnum


class StatusCode(IntEnum):
    """gRPC's codes (grpc.github.io/grpc/core/md_doc_statuscodes.html)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A call that failed, by the server's word or by the connection's end."""

    def __init__(self, code: StatusCode, details: str = "") -> None:
        super().__init__(f"{code.name}: {details}")
        self._code, self._details = code, details

    def code(self) -> StatusCode:
        """Never OK."""
        return self._code

    def details(self) -> str:
        """The server's words, or ours of the connection; may be empty."""
        return self._details


class ProtocolError(Exception):
    """The other side does not speak HTTP/2 as RFC 9113 and 7541 have it."""


def status_of(number: str) -> StatusCode:
    """Of a grpc-status header; UNKNOWN for what is no code."""
    try:
        return StatusCode(int(number))
    except ValueError:
        return StatusCode.UNKNOWN
