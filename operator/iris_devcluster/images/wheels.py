"""The layer of other people's packages: wheels by exact version and checksum, unpacked as an installer would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from iris_devcluster.errors import DevclusterError
from iris_devcluster.images import compiled
from iris_devcluster.images.oci import Layer, architecture
from iris_devcluster.images.recipe import Base, PythonImage, Recipe, Selection, canonical
from iris_devcluster.images.store import Store
from iris_devcluster.images.tree import Entry, read_folder, write_folder, write_tar

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC_MINOR = {"bookworm": 36}
_ELF = b"\x7fELF"
_PROGRAMS = "usr/local/bin"
_HEADER = """\
# Exact packages of the {name} image, indirect ones too, with the checksums of their wheels for {machines}.
# Generated from runtimes/images/recipe.yaml and pyproject.toml by: iris-devcluster images --lock
"""


def site_packages(base: Base) -> str:
    """Where Debian's Python looks for packages that are not Debian's."""
    return f"usr/local/lib/python{base.python}/dist-packages"


def wheels_layer(recipe: Recipe, image: PythonImage, python: compiled.Python, store: Store) -> Layer:
    """The layer of the image's locked packages, from the cache or newly made."""
    lock = recipe.lock(image.name)
    if not lock.exists():
        raise DevclusterError(f"{lock} is missing; run: iris-devcluster images --lock")
    path = store.path("wheels", lock.read_text(), list(recipe.wheels.drop), recipe.base.python, architecture())
    if not store.has(path):
        with store.making(path) as partial:
            _make(recipe, lock, python, partial)
    return Layer.of(path / "layer.tar", f"packages of {image.name}.lock")


def _make(recipe: Recipe, lock: Path, python: compiled.Python, folder: Path) -> None:
    fetched, files = folder / "fetched", folder / "files"
    options = ["--no-deps", "--require-hashes", "-r", str(lock), "-d", str(fetched)]
    _pip(["download", "--quiet", *_target(recipe.base, architecture()), *options])
    place = site_packages(recipe.base)
    for wheel in sorted(fetched.glob("*.whl")):
        write_folder(files, unpack(wheel, place, recipe.wheels))
        wheel.unlink()
    python.compile(files, [place])
    write_tar(folder / "layer.tar", read_folder(files))
    shutil.rmtree(files)


def unpack(wheel: Path, place: str, selection: Selection) -> Iterator[Entry]:
    """A wheel's library files at `place`, and its programs. Scripts are left out: they would name this host's Python."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            name = info.filename
            head, _, rest = name.partition("/")
            if head.endswith(".data"):
                kind, _, name = rest.partition("/")
                if kind == "scripts" and (program := archive.read(info)).startswith(_ELF):
                    yield Entry(f"{_PROGRAMS}/{name}", program, 0o755)
                if kind not in ("purelib", "platlib"):
                    continue
            if not info.is_dir() and selection.takes(f"{place}/{name}"):
                yield Entry(f"{place}/{name}", archive.read(info))


def write_lock(recipe: Recipe, image: PythonImage) -> Path:
    """Resolve the image's dependencies anew, for both architectures, and write its lock file."""
    hashes: dict[str, set[str]] = {}
    wanted = [f"{name}=={recipe.pins[name]}" for name in image.dependencies]
    constraints = recipe.source / "constraints.txt"
    if constraints.exists():  # what images run is what tests ran
        wanted += ["-c", str(constraints)]
    for arch in sorted(_MACHINES):
        for pin, checksum in resolve(recipe.base, arch, wanted):
            hashes.setdefault(pin, set()).add(checksum)
    lines = [
        " \\\n".join([pin, *(f"    --hash=sha256:{each}" for each in sorted(checksums))])
        for pin, checksums in sorted(hashes.items())
    ]
    path = recipe.lock(image.name)
    header = _HEADER.format(name=image.name, machines=" and ".join(_MACHINES.values()))
    path.write_text(header + "\n".join(lines) + "\n")
    return path


def resolve(base: Base, arch: str, requirements: Sequence[str]) -> list[tuple[str, str]]:
    """`name==version` and the wheel's sha256, of the requirements (pip's words) and all that they need."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        options = ["--dry-run", "--ignore-installed", "--target", scratch, "--report", str(report)]
        _pip(["install", "--quiet", *options, *_target(base, arch), *requirements])
        found = json.loads(report.read_text())["install"]
    return [
        (
            f"{canonical(each['metadata']['name'])}=={each['metadata']['version']}",
            each["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for each in found
    ]


def _target(base: Base, arch: str) -> list[str]:
    """pip's words for the image's Python rather than the one that runs pip."""
    machine = _MACHINES[arch]
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC_MINOR[base.suite], 4, -1)]
    platforms = [f"--platform={name}" for name in (*names, f"manylinux2014_{machine}")]
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={base.python}", *platforms]


def _pip(arguments: Sequence[str]) -> None:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise DevclusterError(f"pip {arguments[0]} failed; is the package index reachable? It said:\n{said}")
