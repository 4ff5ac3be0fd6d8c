"""The table in docs/runtimes.md is the code's."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_runtimes import errors
from iris_runtimes.errors import Fault, InvalidLimits, NotSupported, RuntimeFault

ROOT = Path(__file__).parents[3]
KINDS = {
    one.__name__: one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, RuntimeFault) and one is not RuntimeFault
}


def table() -> dict[str, tuple[str, str, str]]:
    section = (ROOT / "docs/runtimes.md").read_text().split("## Errors")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")
    ]
    return {name.strip("`"): (fault, who, when) for name, fault, who, when in rows}


def test_every_error_is_in_the_table() -> None:
    assert set(table()) == set(KINDS)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_table_is_right(name: str) -> None:
    fault, who, when = table()[name]
    kind = KINDS[name]
    assert (fault, who) == (kind.fault.value, kind.who)
    assert (kind.__doc__ or "").split(". ")[0].split(";")[0].rstrip(".") in when


def test_every_fault_has_an_error() -> None:
    assert {kind.fault for kind in KINDS.values()} == set(Fault)


def test_reasons_are_the_names() -> None:
    assert {name: kind.reason for name, kind in KINDS.items() if kind is not InvalidLimits} == {
        name: name for name in KINDS if name != "InvalidLimits"
    }


def test_not_supported_names_the_field() -> None:
    error = NotSupported("enroot", "memory_limit_bytes", "it makes no cgroups")
    assert error.field == "memory_limit_bytes"
    assert str(error) == "the runtime enroot does not support memory_limit_bytes: it makes no cgroups"
