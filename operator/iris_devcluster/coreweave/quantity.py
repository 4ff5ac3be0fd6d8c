"""Kubernetes' quantities as whole bytes and millicores: only as much as sizing a node takes."""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"^(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
_FACTOR = {
    None: 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def parse(text: str | int | float) -> float:
    """The quantity in its base unit (cores, bytes); ValueError says what a quantity looks like."""
    match = _QUANTITY.match(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; examples: 500m, 2, 4Gi")
    return float(match[1]) * _FACTOR[match[2]]


def millicores(cores: float) -> str:
    """Cores as the kubelet reads them, for example 1500m."""
    return f"{round(cores * 1000)}m"


def kibibytes(size_bytes: float) -> str:
    """Bytes as the kubelet reads them, rounded down to whole KiB."""
    return f"{int(size_bytes) // 1024}Ki"
