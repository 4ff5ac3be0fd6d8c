from __future__ import annotations

import json
from pathlib import Path

import pytest

from iris_devcluster import command, kubeconfig
from iris_devcluster.errors import CommandFailedError
from iris_devcluster.pki import Pair, Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    made = Pki(tmp_path / "pki")
    made.prepare()
    return made


def text_of(pair: Pair) -> str:
    return command.run(["openssl", "x509", "-in", str(pair.certificate), "-noout", "-text"])


def test_a_client_is_a_user_in_groups(pki: Pki) -> None:
    pair = pki.client("kubelet", "system:node:n-0", ["system:nodes"])
    text = text_of(pair)
    assert "Subject: O = system:nodes, CN = system:node:n-0" in text
    assert "TLS Web Client Authentication" in text
    assert "CA:FALSE" in text
    command.run(["openssl", "verify", "-CAfile", str(pki.ca.certificate), str(pair.certificate)])


def test_a_server_has_its_names(pki: Pki) -> None:
    text = text_of(pki.server("api", ["DNS:kubernetes", "IP:10.0.0.1"]))
    assert "DNS:kubernetes, IP Address:10.0.0.1" in text


def test_the_front_proxy_has_an_authority_of_its_own(pki: Pki) -> None:
    pair = pki.client("proxy", "front-proxy-client", authority=pki.front_proxy_ca)
    with pytest.raises(CommandFailedError):
        command.run(["openssl", "verify", "-CAfile", str(pki.ca.certificate), str(pair.certificate)])


def test_what_exists_is_kept_and_private(pki: Pki) -> None:
    pair = pki.client("one", "one")
    before = pair.certificate.read_bytes(), pki.ca.key.read_bytes()
    pki.prepare()
    assert (pki.client("one", "one").certificate.read_bytes(), pki.ca.key.read_bytes()) == before
    assert pki.folder.stat().st_mode & 0o77 == 0


def test_a_kubeconfig_stands_alone(pki: Pki, tmp_path: Path) -> None:
    text = kubeconfig.render("iris", "https://10.1.0.2:6443", pki.ca.certificate, pki.client("one", "one"))
    path = tmp_path / "kubeconfig"
    kubeconfig.write(path, text)
    config = json.loads(path.read_text())
    assert config["current-context"] == "iris"
    assert config["clusters"][0]["cluster"]["server"] == "https://10.1.0.2:6443"
    assert path.stat().st_mode & 0o77 == 0
