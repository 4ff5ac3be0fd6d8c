"""A link that the kernel takes while we do is gone, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from iris_devcluster import network
from iris_devcluster.errors import CommandFailedError

# An `ip` that knows one link. Told to delete it, it fails as the real one does when the link has just gone.
IP = """#!/bin/sh
if [ "$1" = -o ]; then cat {links}; exit 0; fi
cat >/dev/null
{going}
echo 'Cannot find device "iris-1-h"' >&2
exit 1
"""


@pytest.fixture
def links(tmp_path: Path) -> Path:
    path = tmp_path / "links"
    path.write_text("7: iris-1-h@if2: <BROADCAST>\n")
    return path


def fake_ip(monkeypatch: pytest.MonkeyPatch, links: Path, going: str) -> None:
    program = links.with_name("ip")
    program.write_text(IP.format(links=links, going=going))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{links.parent}:/usr/bin:/bin")


def test_a_link_that_goes_by_itself_in_between_is_no_error(monkeypatch: pytest.MonkeyPatch, links: Path) -> None:
    fake_ip(monkeypatch, links, f": >{links}")
    network.remove_host_link("iris-1-h")
    assert links.read_text() == ""


def test_a_link_that_stays_is_one(monkeypatch: pytest.MonkeyPatch, links: Path) -> None:
    fake_ip(monkeypatch, links, ":")
    with pytest.raises(CommandFailedError, match="Cannot find device"):
        network.remove_host_link("iris-1-h")


def test_no_link_is_left_alone(monkeypatch: pytest.MonkeyPatch, links: Path) -> None:
    fake_ip(monkeypatch, links, "exit 2")
    network.remove_host_link("iris-2-h")
