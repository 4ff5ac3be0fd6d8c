"""Label and field selectors, as far as Iris uses them: equality, inequality, existence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iris_operator.ports.kube import Body


def matches(body: Body, labels: str, fields: str) -> bool:
    """Whether an object is selected by both."""
    own: Mapping[str, str] = body["metadata"].get("labels") or {}
    return all(_label(own, term) for term in _terms(labels)) and all(_field(body, term) for term in _terms(fields))


def _terms(selector: str) -> list[str]:
    return [term.strip() for term in selector.split(",") if term.strip()]


def _label(own: Mapping[str, str], term: str) -> bool:
    if "!=" in term:
        name, _, value = term.partition("!=")
        return own.get(name) != value
    if "=" in term:
        name, _, value = term.replace("==", "=").partition("=")
        return own.get(name) == value
    return term.lstrip("!") not in own if term.startswith("!") else term in own


def _field(body: Body, term: str) -> bool:
    negated = "!=" in term
    path, _, value = term.replace("!=", "=").replace("==", "=").partition("=")
    found: Any = body
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return ((found or "") == value) is not negated
