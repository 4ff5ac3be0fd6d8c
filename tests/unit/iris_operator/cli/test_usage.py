"""What these commands say of wrong arguments; sizes as people read them."""

from __future__ import annotations

import pytest

from iris_operator.cli.transfer import size_text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cp", "a", "b"], "only one, is in a Task"),
        (["cp", "t:/a", "u:/b"], "only one, is in a Task"),
        (["cp", "t:", "b"], "lacks a path"),
        (["cp", "t:/", "/tmp"], "no name of its own"),
        (["cp", "/nonexistent/x", "t:/b"], "is not here"),
        (["cp", "t:/x", "/nonexistent/x/y"], "is no directory here"),
        (["logs", "a", "-l", "b=c"], "names of Tasks, or -l"),
        (["logs", "a", "-p", "--attempt", "2"], "exclude each other"),
    ],
)
def test_usage(arguments: list[str], words: str) -> None:
    from click.testing import CliRunner

    from iris_operator.cli.main import main

    found = CliRunner().invoke(main, arguments)
    assert found.exit_code in (1, 2) and words in found.output


@pytest.mark.parametrize("size", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40 * 3, "3.0 TiB")])
def test_sizes(size: tuple[int, str]) -> None:
    assert size_text(size[0]) == size[1]
