"""The JSON merge patch (RFC 7386) from one object to another; None when they are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to send so that `before` becomes `after`; removed members are null, lists are replaced whole."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif isinstance(value, Mapping) and isinstance(before[name], Mapping):
            inner = merge_patch(before[name], value)
            if inner is not None:
                patch[name] = inner
        elif value != before[name]:
            patch[name] = value
    return patch or None


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The object that the API server makes of `target` by a merge patch. Neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged
