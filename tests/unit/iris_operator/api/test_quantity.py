"""Quantities as exact numbers."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.api.quantity import (
    QUANTITY_PATTERN,
    amount,
    amounts,
    minus,
    parse_quantity,
    plus,
    shortage,
    to_quantity,
)

NUMBERS: dict[str, int | str] = {
    "1": 1, "0": 0, "500m": "0.5", "1.5": "1.5", "1.": 1, ".5": "0.5", "2k": 2000, "2Ki": 2048, "3M": 3 * 10**6, "1Gi": 2**30,
    "2e3": 2000, "2E3": 2000, "1e-3": "0.001", "100n": "0.0000001", "5u": "0.000005", "1Ei": 2**60, "1E": 10**18,
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_parse(text: str) -> None:
    assert parse_quantity(text) == Decimal(NUMBERS[text])


@pytest.mark.parametrize("text", ["", " ", "1 Gi", "5GB", "Gi", "1,5", "0x10", "1e", "1Gib", "m", "--1", "NaN"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["5GB", "-1", "", "much", "1 Gi", "+1", "1e999999999", "9" * 21])
def test_the_schema_refuses(text: str) -> None:
    assert not re.search(QUANTITY_PATTERN, text)


AMOUNTS = {
    ("cpu", "500m"): 500, ("cpu", "2"): 2000, ("cpu", 2): 2000, ("cpu", "0.0001"): 1, ("cpu", "1500u"): 2,
    ("memory", "1Gi"): 2**30, ("memory", "1500m"): 2, ("memory", "1.5Gi"): 3 * 2**29,
    ("nvidia.com/gpu", "8"): 8, ("nvidia.com/gpu", "1500m"): 2,
}  # fmt: skip


@pytest.mark.parametrize("case", AMOUNTS)
def test_own_units_rounded_up(case: tuple[str, str]) -> None:
    assert amount(*case) == AMOUNTS[case]


TEXTS = {
    ("cpu", 1500): "1500m", ("cpu", 2000): "2", ("cpu", 0): "0", ("memory", 2**31): "2Gi", ("memory", 2**20 + 1): "1048577",
    ("memory", 0): "0", ("memory", 2**40): "1Ti", ("ephemeral-storage", 2**10): "1Ki", ("nvidia.com/gpu", 1024): "1024",
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_shortest_exact_text(case: tuple[str, int]) -> None:
    assert to_quantity(*case) == TEXTS[case]


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 2**62))
def test_there_and_back(resource: str, value: int) -> None:
    assert amount(resource, to_quantity(resource, value)) == value


@given(st.from_regex(QUANTITY_PATTERN, fullmatch=True))
def test_what_the_schema_takes_can_be_read(text: str) -> None:
    assert len(str(amount("cpu", text))) < 130


def test_arithmetic_by_resource() -> None:
    assert amounts(None) == {}
    assert plus({"cpu": 1}, {"cpu": 2, "memory": 3}) == {"cpu": 3, "memory": 3}
    assert minus({"cpu": 1, "memory": 5}, {"cpu": 2, "x": 1}) == {"cpu": 0, "memory": 5}
    assert shortage({"cpu": 3, "x": 1, "memory": 1}, {"cpu": 1, "memory": 1}) == {"cpu": 2, "x": 1}
