"""Whether a user may: the question to the API server, and its answer. Pure."""

from __future__ import annotations

from typing import Any

from iris_operator.gateway.answers import Refusal
from iris_operator.gateway.headers import User
from iris_operator.gateway.routes import Ask
from iris_operator.identity.names import STREAM_GROUP, STREAM_VERSION
from iris_operator.ports.kube import ACCESS_REVIEWS, Body


def review(user: User, ask: Ask) -> dict[str, Any]:
    """A SubjectAccessReview."""
    return {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.name,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {name: list(values) for name, values in user.extra.items()},
            "resourceAttributes": {
                "namespace": ask.namespace,
                "verb": ask.verb,
                "group": STREAM_GROUP,
                "version": STREAM_VERSION,
                "resource": ask.resource,
                "subresource": ask.subresource,
                "name": ask.name,
            },
        },
    }


def refusal(answered: Body, user: User, ask: Ask) -> Refusal | None:
    """Nothing when the review allows it; else words that name the right that is missing, as the API server's would."""
    status = answered.get("status") or {}
    if status.get("allowed") is True and not status.get("denied"):
        return None
    words = (
        f'{ask.resource}.{STREAM_GROUP} "{ask.name}" is forbidden: User "{user.name}" cannot {ask.verb} resource '
        f'"{ask.resource}/{ask.subresource}" in API group "{STREAM_GROUP}" in the namespace "{ask.namespace}"'
    )
    reason = status.get("reason")
    return Refusal(403, "Forbidden", f"{words}: {reason}" if reason else words)
