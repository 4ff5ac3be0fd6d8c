"""Settings: layers, and messages for what is not understood."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from iris_devcluster.coreweave import settings
from iris_devcluster.coreweave.store import Document

BAD: dict[str, tuple[str, str]] = {
    "not a mapping": ("[1]", "must be a mapping"),
    "unknown at the top": ("colour: red", "unknown colour; known: defaults,"),
    "unknown in a layer": ("nodes: {a: {colour: red}}", "nodes.a: unknown colour"),
    "a quota for a pool": ("nodePools: {a: {quota: 1}}", "nodePools.a: unknown quota"),
    "negative": ("defaults: {bootSeconds: -1}", "defaults.bootSeconds: -1 is not a number of seconds"),
    "a word": ("defaults: {quota: many}", "defaults.quota: 'many' is not a whole number"),
    "no such mode": ("defaults: {boot: maybe}", "none of normal, slow, never"),
    "no such size": ("nodeMemory: lots", "nodeMemory: 'lots' is not a quantity"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(settings.SettingsError) as error:
        settings.parse(yaml.safe_load(text))
    assert message in str(error.value)


def test_layers() -> None:
    found = settings.parse({
        "defaults": {"bootSeconds": 1, "gpus": 1},
        "instanceTypes": {"t": {"bootSeconds": 2, "gpus": 2}},
        "nodePools": {"p": {"bootSeconds": 3, "gpus": 3}},
        "nodes": {"n": {"bootSeconds": 4}},
    })  # fmt: skip
    assert found.of("t", "p", "n") == settings.Overrides(4.0, "normal", "on", 3, 0)
    assert found.of("t", "p").boot_seconds == 3
    assert found.of("t").boot_seconds == 2
    assert found.of("other").boot_seconds == 1


@pytest.mark.parametrize("text", ["nodes: {a: {power: off}}", "nodes: {a: {power: 'off'}}"])
def test_yaml_reads_a_bare_off_as_a_boolean(text: str) -> None:
    assert settings.parse(yaml.safe_load(text)).nodes["a"].power == "off"


@pytest.mark.parametrize("empty", [None, {}, {"defaults": None, "nodes": {"a": None}}])
def test_empty(empty: Any) -> None:
    assert settings.parse(empty).of("t").boot_seconds == 2


def test_a_document_forgets_faults_but_not_limits() -> None:
    document = Document.from_api(None)
    document.layer("defaults")["quota"] = 4
    document.layer("nodes", "a")["power"] = "off"
    document.layer("nodePools", "p")["boot"] = "never"
    document.refusals["delete"] = {"p", "q"}
    document.drop_faults("p")
    again = Document.from_api({"data": document.to_data()})
    assert again.settings == {"defaults": {"quota": 4}, "nodes": {"a": {"power": "off"}}}
    assert again.refusals == {"delete": {"q"}}
    again.drop_faults()
    assert Document.from_api({"data": again.to_data()}) == Document({"defaults": {"quota": 4}}, {})


def test_a_document_refuses_to_write_nonsense() -> None:
    with pytest.raises(settings.SettingsError):
        Document({"nodes": {"a": {"power": "maybe"}}}).to_data()
