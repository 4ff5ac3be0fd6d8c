from __future__ import annotations

from hashlib import sha256

import pytest

from iris_runtimes.containerd.image_config import (
    Accounts,
    User,
    chain_id,
    needs_accounts,
    parse_config,
    pick_manifest,
    resolve_user,
)
from iris_runtimes.errors import ImageInvalid, InvalidSpec

ACCOUNTS = Accounts(
    "root:x:0:0::/root:/bin/sh\nworker:x:1000:1001::/:/bin/sh\nbroken:x:\n# a comment\n",
    "root:x:0:\nstaff:x:1001:\nvideo:x:44:worker,other\nbad:x:y:worker\n",
)


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("", User(0, 0)),
        ("root", User(0, 0)),
        ("0", User(0, 0)),
        ("worker", User(1000, 1001, (44,))),
        ("1000", User(1000, 1001, (44,))),
        ("worker:video", User(1000, 44, (44,))),
        ("worker:7", User(1000, 7, (44,))),
        ("77", User(77, 0)),
        ("77:88", User(77, 88)),
        ("77:staff", User(77, 1001)),
    ],
)
def test_users(text: str, user: User) -> None:
    assert resolve_user(text, ACCOUNTS) == user


@pytest.mark.parametrize(
    ("text", "remedy"), [("ghost", "runAsUser"), ("broken", "runAsUser"), ("worker:bad", "runAsGroup")]
)
def test_unknown_names_say_the_remedy(text: str, remedy: str) -> None:
    with pytest.raises(InvalidSpec, match=remedy):
        resolve_user(text, ACCOUNTS)


@pytest.mark.parametrize("text", ["", "0", "root", "1:2", "0:0"])
def test_no_accounts_needed(text: str) -> None:
    assert not needs_accounts(text)
    assert resolve_user(text, Accounts()) == resolve_user(text, ACCOUNTS)


@pytest.mark.parametrize("text", ["1000", "worker", "1:staff", "worker:2"])
def test_accounts_needed(text: str) -> None:
    assert needs_accounts(text)


def test_chain_of_layers() -> None:
    assert chain_id(["sha256:a"]) == "sha256:a"
    two = "sha256:" + sha256(b"sha256:a sha256:b").hexdigest()
    assert chain_id(["sha256:a", "sha256:b"]) == two
    assert chain_id(["sha256:a", "sha256:b", "sha256:c"]) == "sha256:" + sha256(f"{two} sha256:c".encode()).hexdigest()


def test_the_manifest_of_this_machine() -> None:
    def of(digest: str, **platform: str) -> dict[str, object]:
        return {"digest": digest, "platform": platform}

    index = {"manifests": [of("w", os="windows", architecture="amd64"), of("arm", os="linux", architecture="arm64"),
                           of("amd", os="linux", architecture="amd64")]}  # fmt: skip
    assert pick_manifest(index, "amd64") == "amd"
    assert pick_manifest(index, "arm64") == "arm"
    with pytest.raises(ImageInvalid, match="linux/s390x"):
        pick_manifest(index, "s390x")


def test_configuration() -> None:
    config = {
        "rootfs": {"diff_ids": ["sha256:d"]},
        "config": {"Cmd": ["run"], "Env": ["A=1"], "User": "7", "Entrypoint": None},
    }
    found = parse_config("sha256:m", {"layers": [{"digest": "sha256:l"}]}, config)
    assert (found.cmd, found.env, found.user, found.entrypoint) == (("run",), ("A=1",), "7", ())
    assert (found.chain_id, found.layers) == ("sha256:d", ("sha256:l",))


@pytest.mark.parametrize("config", [{}, {"rootfs": {}}, {"rootfs": None}])
def test_no_configuration(config: dict[str, object]) -> None:
    with pytest.raises(ImageInvalid):
        parse_config("sha256:m", {"layers": []}, config)
