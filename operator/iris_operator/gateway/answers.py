"""Refusals, as Kubernetes says them: metav1.Status with one line for a person. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iris_operator.ports.errors import ApiError


@dataclass(frozen=True)
class Refusal:
    """Why not: an HTTP status, a CamelCase reason, a line."""

    status: int
    reason: str
    message: str

    @property
    def body(self) -> dict[str, Any]:
        """metav1.Status."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }


def of_api(error: ApiError, what: str) -> Refusal:
    """What the API server's answer to one of the gateway's own questions means for the one who asks."""
    if error.status == 404:
        return Refusal(404, "NotFound", error.message)
    if error.status in (401, 403):
        return Refusal(500, "InternalError", f"the gateway itself may not {what}: {error.message}")
    return Refusal(503, "ServiceUnavailable", f"the gateway can't {what}: {error.message}")
