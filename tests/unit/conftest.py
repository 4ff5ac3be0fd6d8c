"""Unit tests: pure, sockets off (unix sockets stay: the event loop needs a pair)."""

from __future__ import annotations

import pytest
from pytest_socket import disable_socket, enable_socket


@pytest.fixture(autouse=True)
def _no_sockets():  # type: ignore[no-untyped-def]
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
