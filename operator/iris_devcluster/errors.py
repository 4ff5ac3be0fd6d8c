"""Errors that a person reads: each says what happened and what to do about it."""

from __future__ import annotations


class DevclusterError(Exception):
    """Something outside this package's control; the message is complete and shown without a traceback."""


class ClusterNotFoundError(DevclusterError):
    """No cluster lives in that root directory."""


class CommandFailedError(DevclusterError):
    """A helper program such as ip or openssl exited non-zero."""
