"""Image references, by the grammar of the OCI distribution specification. Pure."""

from __future__ import annotations

import re

from iris_runtimes.errors import ImageInvalid

_REGISTRY = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"{_REGISTRY}(?:/{_PART})+(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha(?:256:[0-9a-f]{{64}}|512:[0-9a-f]{{128}}))?"
)


def normalize(reference: str, default_registry: str) -> str:
    """A reference with its registry and tag, as containerd stores them: `task` -> `<default registry>/task:latest`.

    ImageInvalid when it names no registry and there is no default, or when it is none.
    """
    name, digest_sign, digest = reference.partition("@")
    first, slash, _ = name.partition("/")
    if not slash or ("." not in first and ":" not in first and first != "localhost"):
        if not default_registry:
            raise ImageInvalid(
                f"image {reference} names no registry: write HOST/{name}, "
                "or set spec.defaults.imageRegistry of the IrisCluster"
            )
        name = f"{default_registry}/{name}"
    if ":" not in name.rsplit("/", 1)[-1] and not digest_sign:
        name += ":latest"
    full = name + digest_sign + digest
    if not _REFERENCE.fullmatch(full):
        raise ImageInvalid(
            f"{reference!r} is no image reference: write HOST[:PORT]/name[:tag][@sha256:digest], name in lower case"
        )
    return full
