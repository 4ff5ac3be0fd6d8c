"""Kubernetes quantities as exact numbers: cpu in millicores, memory in bytes, devices in pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY = re.compile(
    r"^([+-]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE][+-]?[0-9]+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?$"
)

# Digits are bounded: 1e999999999 bytes is a number of a billion digits, which nobody should make us write out.
QUANTITY_PATTERN = (
    r"^([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2}|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
)

Amounts = Mapping[str, int]
"""Resource name -> amount: `cpu` in millicores, `memory` in bytes, anything else in pieces."""


def parse_quantity(text: str | int | float) -> Decimal:
    """The number a quantity stands for. Raises ValueError when it is none."""
    match = _QUANTITY.match(str(text))
    if not match:
        raise ValueError(f"{text!r} is not a Kubernetes quantity such as 500m, 2 or 16Gi")
    number, exponent, suffix = match.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIX[suffix or ""]


def amount(resource: str, text: str | int | float) -> int:
    """A quantity in the resource's own unit (millicores, bytes, pieces), rounded up."""
    number = parse_quantity(text) * (1000 if resource == "cpu" else 1)
    return int(number.to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: Mapping[str, str | int | float] | None) -> dict[str, int]:
    """A resource list in own units; None is empty."""
    return {name: amount(name, text) for name, text in (quantities or {}).items()}


def to_quantity(resource: str, value: int) -> str:
    """An amount as the shortest exact quantity: 1500 millicores -> `1500m`, 2 * 2**30 bytes -> `2Gi`."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource == "memory" or resource == "ephemeral-storage":
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            unit = int(_SUFFIX[suffix])
            if value and value % unit == 0:
                return f"{value // unit}{suffix}"
    return str(value)


def to_quantities(values: Amounts) -> dict[str, str]:
    """A resource list back as quantities."""
    return {name: to_quantity(name, value) for name, value in values.items()}


def plus(left: Amounts, right: Amounts) -> dict[str, int]:
    """Sum by resource."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def minus(left: Amounts, right: Amounts) -> dict[str, int]:
    """Difference by resource of `left`, never below 0."""
    return {name: max(0, value - right.get(name, 0)) for name, value in left.items()}


def shortage(wanted: Amounts, free: Amounts) -> dict[str, int]:
    """What is missing of each wanted resource; empty when `wanted` fits."""
    return {name: value - free.get(name, 0) for name, value in wanted.items() if value > free.get(name, 0)}
