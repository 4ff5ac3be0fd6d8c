#!/usr/bin/env -S python3 -IS
"""Stands for enroot's program, by its documentation: a root file system is a folder, a command a process of this machine.

Pullable images: the names in FAKE_ENROOT_IMAGES; one of them with a password: FAKE_ENROOT_LOCKED (NAME=USER:PASSWORD).
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

PROGRAMS = ["true", "false", "sleep", "sh", "cat", "echo", "head", "stty", "env"]
DATA = Path(os.environ["ENROOT_DATA_PATH"])


def fail(words: str) -> None:
    sys.exit(f"[ERROR] {words}")


def import_image(output: str, uri: str) -> None:
    user, at, rest = uri.removeprefix("docker://").rpartition("@")
    name = rest.replace("#", "/", 1)
    locked, _, secret = os.environ.get("FAKE_ENROOT_LOCKED", "").partition("=")
    if name == locked:
        config = Path(os.environ.get("ENROOT_CONFIG_PATH", "/nonexistent")) / ".credentials"
        given = config.read_text().split() if config.exists() else []
        wanted = secret.split(":")
        if [*given[3:4], *given[5:6]] != wanted or user != wanted[0] or not at:
            fail(f"URL https://{rest} returned error code: 401 Unauthorized")
    if name not in os.environ.get("FAKE_ENROOT_IMAGES", "").split():
        fail(f"URL https://{rest} returned error code: 404 Not Found")
    Path(output).write_text(f"squashed {name}")


def create(name: str, image: str, force: bool) -> None:
    root = DATA / name
    if not Path(image).read_text().startswith("squashed"):
        fail("No such file or directory")
    if root.exists():
        if not force:
            fail(f"File already exists: {root}")
        shutil.rmtree(root)
    (root / "bin").mkdir(parents=True)
    (root / "usr").mkdir()
    (root / "usr/bin").symlink_to("/bin")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh")
    for program in PROGRAMS:
        (root / "bin" / program).touch(0o755)


def run(words: list[str], env: list[str]) -> None:
    given = dict(pair.split("=", 1) for pair in env)
    full = {"PATH": "/usr/bin:/bin", "TERM": "xterm", **given}
    os.execvpe(words[0], words, full)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version")
    one = commands.add_parser("import")
    one.add_argument("--output", required=True)
    one.add_argument("uri")
    one = commands.add_parser("create")
    one.add_argument("--name", required=True)
    one.add_argument("--force", action="store_true")
    one.add_argument("image")
    one = commands.add_parser("remove")
    one.add_argument("--force", action="store_true")
    one.add_argument("name")
    one = commands.add_parser("start")
    one.add_argument("--rw", action="store_true")
    one.add_argument("--rc")
    one.add_argument("--env", action="append", default=[])
    one.add_argument("--mount", action="append", default=[])
    one.add_argument("words", nargs=argparse.REMAINDER)
    one = commands.add_parser("exec")
    one.add_argument("--env", action="append", default=[])
    one.add_argument("words", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    words = [word for word in getattr(asked, "words", []) if word != "--"] if hasattr(asked, "words") else []
    if asked.command == "version":
        print("3.5.0")  # noqa: T201
    elif asked.command == "import":
        import_image(asked.output, asked.uri)
    elif asked.command == "create":
        create(asked.name, asked.image, asked.force)
    elif asked.command == "remove":
        shutil.rmtree(DATA / asked.name)
    elif asked.command == "start":
        if not (DATA / words[0]).is_dir():
            fail(f"No such file or directory: {DATA / words[0]}")
        (DATA / words[0] / "mounts.json").write_text(json.dumps(asked.mount))
        run(["/bin/sh", asked.rc, *words[1:]] if asked.rc else ["/bin/sh", *words[1:]], asked.env)
    else:
        os.kill(int(words[0]), 0)
        run(words[1:], asked.env)


main()
