"""An image's configuration and the users in it, as pure functions of the blobs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iris_runtimes.errors import ImageInvalid, InvalidSpec


@dataclass(frozen=True)
class User:
    """Numeric ids of a process."""

    uid: int = 0
    gid: int = 0
    additional_gids: tuple[int, ...] = ()


@dataclass(frozen=True)
class ImageConfig:
    """What a sandbox needs of an image. `chain_id` is the snapshot of all its layers; `layers` their digests, lowest first.

    `chain`: the snapshots of the lowest one, two, ... layers. `blob_bytes`: all blobs, compressed, as the manifest says.
    """

    digest: str
    chain_id: str
    layers: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""
    chain: tuple[str, ...] = ()
    blob_bytes: int = 0


@dataclass(frozen=True)
class Accounts:
    """/etc/passwd and /etc/group of an image, as text."""

    passwd: str = ""
    group: str = ""


def chain_ids(diff_ids: Sequence[str]) -> tuple[str, ...]:
    """The OCI image spec's ChainIDs of the lowest one, two, ... layers: each layer hashed onto the chain below it."""
    chain: list[str] = []
    for diff_id in diff_ids:
        below = f"{chain[-1]} {diff_id}".encode() if chain else b""
        chain.append(f"sha256:{hashlib.sha256(below).hexdigest()}" if below else diff_id)
    return tuple(chain)


def chain_id(diff_ids: Sequence[str]) -> str:
    """The ChainID of all layers; empty for none."""
    return (chain_ids(diff_ids) or ("",))[-1]


def pick_manifest(index: Mapping[str, Any], architecture: str) -> str:
    """Digest of the manifest of an index for linux on this architecture."""
    for one in index.get("manifests", []):
        platform = one.get("platform") or {}
        if platform.get("os", "linux") == "linux" and platform.get("architecture", architecture) == architecture:
            return str(one["digest"])
    raise ImageInvalid(f"the image has no variant for linux/{architecture}")


def parse_config(digest: str, manifest: Mapping[str, Any], config: Mapping[str, Any]) -> ImageConfig:
    """The configuration, from the manifest and the config blob. ImageInvalid when they aren't an image's."""
    inner = config.get("config") or {}
    try:
        diff_ids = config["rootfs"]["diff_ids"]
        layers = tuple(layer["digest"] for layer in manifest["layers"])
        blobs = [manifest.get("config") or {}, *manifest["layers"]]
    except (KeyError, TypeError) as error:
        raise ImageInvalid(f"{digest} is no container image: {error} is missing") from error
    return ImageConfig(
        digest=digest,
        chain_id=chain_id(diff_ids),
        layers=layers,
        entrypoint=tuple(inner.get("Entrypoint") or ()),
        cmd=tuple(inner.get("Cmd") or ()),
        env=tuple(inner.get("Env") or ()),
        working_dir=inner.get("WorkingDir") or "",
        user=inner.get("User") or "",
        chain=chain_ids(diff_ids),
        blob_bytes=sum(int(blob.get("size", 0)) for blob in blobs),
    )


def needs_accounts(text: str) -> bool:
    """Whether it takes the image's accounts to resolve its User: not for root, nor when user and group are both numbers."""
    name, _, group = text.partition(":")
    return name not in ("", "0", "root") and not (name.isdigit() and group.isdigit())


def resolve_user(text: str, accounts: Accounts) -> User:
    """Image User (`uid`, `uid:gid`, `name`, `name:group`, empty) to ids, as containerd does.

    A uid that is not in the image's /etc/passwd gets group 0. InvalidSpec when a name is not in the image.
    """
    if not text:
        return User()
    name, _, group = text.partition(":")
    row = _account(name, accounts)
    if row is not None:
        name, uid, gid = row
    elif name == "root":
        uid, gid = 0, 0
    elif name.isdigit():
        uid, gid = int(name), 0
    else:
        raise InvalidSpec(f"the image's user {name!r} is not in its /etc/passwd: set securityContext.runAsUser")
    if group:
        gid = _group_id(group, accounts)
    return User(uid, gid, _memberships(name, accounts))


def _account(name: str, accounts: Accounts) -> tuple[str, int, int] | None:
    """Name, uid and gid of a passwd row, found by name or uid."""
    for line in accounts.passwd.splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and name in (fields[0], fields[2]) and fields[2].isdigit() and fields[3].isdigit():
            return fields[0], int(fields[2]), int(fields[3])
    return None


def _group_id(group: str, accounts: Accounts) -> int:
    if group.isdigit():
        return int(group)
    for line in accounts.group.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[0] == group and fields[2].isdigit():
            return int(fields[2])
    raise InvalidSpec(f"the image's group {group!r} is not in its /etc/group: set securityContext.runAsGroup")


def _memberships(name: str, accounts: Accounts) -> tuple[int, ...]:
    rows = (line.split(":") for line in accounts.group.splitlines())
    return tuple(int(row[2]) for row in rows if len(row) >= 4 and row[2].isdigit() and name in row[3].split(","))
