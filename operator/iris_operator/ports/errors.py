"""Errors of the Kubernetes API, by what the caller should do about them."""

from __future__ import annotations


class ApiError(Exception):
    """The API server refused. `status` is the HTTP status, `reason` metav1.Status.reason, `message` its own words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFoundError(ApiError):
    """No such object (404)."""


class ConflictError(ApiError):
    """It changed meanwhile, or exists already (409): read again and decide anew."""


class ForbiddenError(ApiError):
    """RBAC or admission says no (401, 403): a person must act."""


class InvalidError(ApiError):
    """The object breaks its schema (400, 422): the same request can never succeed."""


class GoneError(ApiError):
    """The resourceVersion is too old to watch from (410): list again."""


class UnavailableError(ApiError):
    """The API server can't be reached or is overloaded (429, 5xx, network): try again later."""


def error_for(status: int, reason: str, message: str) -> ApiError:
    """The typed error of an HTTP status."""
    kinds: dict[int, type[ApiError]] = {
        400: InvalidError,
        401: ForbiddenError,
        403: ForbiddenError,
        404: NotFoundError,
        409: ConflictError,
        410: GoneError,
        422: InvalidError,
    }
    if status == 429 or status >= 500:
        return UnavailableError(status, reason, message)
    return kinds.get(status, ApiError)(status, reason, message)
