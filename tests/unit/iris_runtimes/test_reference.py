from __future__ import annotations

import pytest

from iris_runtimes.errors import ImageInvalid
from iris_runtimes.reference import normalize

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("task", "registry.iris:5000/task:latest"),
        ("iris/task:dev", "registry.iris:5000/iris/task:dev"),
        ("ghcr.io/a/b", "ghcr.io/a/b:latest"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        (f"ghcr.io/a/b@{DIGEST}", f"ghcr.io/a/b@{DIGEST}"),
        (f"ghcr.io/a/b:1@{DIGEST}", f"ghcr.io/a/b:1@{DIGEST}"),
        ("localhost/a", "localhost/a:latest"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("10.0.0.1:5000/a_b/c-d:v1.2_3", "10.0.0.1:5000/a_b/c-d:v1.2_3"),
    ],
)
def test_full_names(reference: str, full: str) -> None:
    assert normalize(reference, "registry.iris:5000") == full


@pytest.mark.parametrize("reference", ["", "A/b", "ghcr.io/A", "ghcr.io/a:", "ghcr.io/a b", "ghcr.io//a", "ghcr.io/a@sha256:1",
                                       "ghcr.io/a:" + "t" * 129, "ghcr.io/a;b", "-x/a", "ghcr.io/a\n"])  # fmt: skip
def test_no_references(reference: str) -> None:
    with pytest.raises(ImageInvalid):
        normalize(reference, "registry.iris:5000")


def test_no_registry_says_what_to_do() -> None:
    with pytest.raises(ImageInvalid, match="HOST/task"):
        normalize("task", "")
