"""Plain kubeconfigs, as kubectl reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from iris_operator.adapters.kube.config import ConfigError, connect
from iris_operator.adapters.kube.kubeconfig import KubeconfigError, read_access


def kubeconfig(path: Path, user: dict[str, Any], **context: str) -> Path:
    body = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(body))
    return path


async def test_a_token_and_a_namespace(tmp_path: Path) -> None:
    connection = await connect(str(kubeconfig(tmp_path / "k", {"token": "secret"}, namespace="team")))
    assert (connection.server, connection.namespace, connection.ssl_context) == ("http://127.0.0.1:1", "team", None)
    assert await connection.token() == "secret"


async def test_a_token_file_is_relative_and_read_anew(tmp_path: Path) -> None:
    connection = await connect(str(kubeconfig(tmp_path / "k", {"tokenFile": "token"})))
    for text in ("one", "two"):
        (tmp_path / "token").write_text(text + "\n")
        assert await connection.token() == text


def test_several_files_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kubeconfig(tmp_path / "1", {"token": "1"})
    second = tmp_path / "2"
    second.write_text(kubeconfig(tmp_path / "x", {"token": "2"}).read_text().replace("current-context: a", "current-context: b")
                      .replace("name: a", "name: b"))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'absent'}:{second}")
    assert read_access().token() == "1"
    assert read_access(context_name="b").token() == "1"  # user u of the first file


@pytest.mark.parametrize(
    ("user", "plain"),
    [({"token": "x"}, True), ({}, True), ({"exec": {"command": "aws"}}, False), ({"auth-provider": {}}, False)],
)
def test_what_is_plain(tmp_path: Path, user: dict[str, Any], plain: bool) -> None:
    assert read_access(str(kubeconfig(tmp_path / "k", user))).plain is plain


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no such file"):
        read_access(str(tmp_path / "absent"))
    with pytest.raises(KubeconfigError, match=r"no context 'z' \(there are: a\)"):
        read_access(str(kubeconfig(tmp_path / "k", {})), "z")
    (tmp_path / "bad").write_text("- x")
    with pytest.raises(KubeconfigError, match="is not a kubeconfig"):
        read_access(str(tmp_path / "bad"))


async def test_broken_certificates_are_a_config_error(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "k", {})
    cluster = "server: https://x\n    certificate-authority-data: '!!'"
    path.write_text(path.read_text().replace("server: http://127.0.0.1:1/", cluster))
    with pytest.raises(ConfigError, match="no usable kubeconfig"):
        await connect(str(path))
