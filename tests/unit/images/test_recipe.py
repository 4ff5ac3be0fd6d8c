"""The recipe of this checkout, its lock files, and the Dockerfiles that say the same."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

from iris_devcluster.errors import DevclusterError
from iris_devcluster.images import recipe
from iris_devcluster.images.build import config
from iris_devcluster.images.recipe import Recipe, Selection, canonical

_SOURCE = Path(__file__).parents[3]
_IMAGES = ("operator", "agent")
_COMMANDS = {"operator": "iris_operator.app", "agent": "iris_operator.agent.main"}
# Only read_kubeconfig needs it, which no agent in its Pod calls: 30 MB that the image is better without.
_LATE = {"agent": {"kubernetes-asyncio"}, "operator": set()}


@pytest.fixture(scope="module")
def plan() -> Recipe:
    return recipe.load(_SOURCE)


def _pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", _IMAGES)
class TestLock:
    def test_has_the_direct_dependencies_at_the_pins_of_pyproject(self, plan: Recipe, name: str) -> None:
        locked = _pins(plan.lock(name))
        wanted = {each: plan.pins[each] for each in plan.images[name].dependencies}
        assert {each: locked.get(each) for each in wanted} == wanted, "run: iris-devcluster images --lock"

    def test_agrees_with_every_other_pin_too(self, plan: Recipe, name: str) -> None:
        locked = _pins(plan.lock(name))
        assert {each: locked[each] for each in plan.pins if each in locked} == {
            each: plan.pins[each] for each in plan.pins if each in locked
        }

    def test_agrees_with_what_the_tests_run_on(self, plan: Recipe, name: str) -> None:
        tested = _pins(_SOURCE / "constraints.txt")
        locked = _pins(plan.lock(name)).items()
        assert {each: tested.get(each) for each, _ in locked} == dict(locked), "run: iris-devcluster images --lock"

    def test_has_a_checksum_for_each_and_names_no_index(self, plan: Recipe, name: str) -> None:
        text = plan.lock(name).read_text()
        entries = re.split(r"\n(?=[a-z0-9-]+==)", text.split("\n", 2)[2])
        assert all("--hash=sha256:" in entry for entry in entries)
        assert "://" not in text

    def test_has_all_that_the_command_imports(self, plan: Recipe, name: str) -> None:
        imported = _imported_by(_COMMANDS[name])
        locked = {canonical(each) for each in _pins(plan.lock(name))}
        modules = {"yaml": "pyyaml", "grpc": "grpcio", "google": "protobuf"}
        missing = {modules.get(each, canonical(each)) for each in imported} - locked - _LATE[name]
        assert not missing, f"add to runtimes/images/recipe.yaml, then: iris-devcluster images --lock: {missing}"


@pytest.mark.parametrize("name", _IMAGES)
class TestDockerfile:
    def test_starts_as_the_image_built_here_does(self, plan: Recipe, name: str) -> None:
        said, wanted = _dockerfile(name), config(plan, plan.images[name])
        assert said["ENTRYPOINT"] == [str(list(wanted.entrypoint)).replace("'", '"')]
        assert said["USER"] == [wanted.user]
        assert said["WORKDIR"][-1] == wanted.working_dir
        for key in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"):
            assert f"{key}={wanted.env[key]}" in said["ENV"][0].split()

    def test_has_the_same_labels(self, plan: Recipe, name: str) -> None:
        for key, value in plan.images[name].labels.items():
            assert f'{key}="{value}"' in _dockerfile(name)["LABEL"][0]

    def test_installs_the_lock_file_on_the_same_python(self, plan: Recipe, name: str) -> None:
        said = _dockerfile(name)
        assert f"python:{plan.base.python}-slim-{plan.base.suite}" in said["ARG"][0]
        assert any(f"--require-hashes --only-binary=:all: -r /tmp/{name}.lock" in each for each in said["RUN"])

    def test_builds_the_wheel_with_the_pinned_backend(self, name: str) -> None:
        requires = tomllib.loads((_SOURCE / "pyproject.toml").read_text())["build-system"]["requires"]
        (install,) = [each for each in _dockerfile(name)["RUN"] if "hatchling==" in each]
        assert set(requires) == {each for each in install.split() if "==" in each}

    def test_has_the_same_busybox(self, plan: Recipe, name: str) -> None:
        said = [each.split()[-1] for each in _dockerfile(name)["COPY"] if each.startswith("--from=busybox")]
        assert said == [f"/{path}" for path in [plan.images[name].busybox] if path]

    def test_copies_only_what_exists(self, name: str) -> None:
        for each in _dockerfile(name)["COPY"]:
            if not each.startswith("--from="):
                assert all((_SOURCE / path).exists() for path in each.split()[:-1]), each


def test_the_task_dockerfile_has_the_same_labels(plan: Recipe) -> None:
    for key, value in plan.task_labels.items():
        assert f'{key}="{value}"' in _dockerfile("task")["LABEL"][0]


def test_a_dependency_without_a_pin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runtimes/images").mkdir(parents=True)
    text = (_SOURCE / "runtimes/images/recipe.yaml").read_text()
    (tmp_path / "runtimes/images/recipe.yaml").write_text(text)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1"\ndependencies = ["kopf>=1"]\n')
    with pytest.raises(DevclusterError, match=r"kopf, which pyproject\.toml does not pin"):
        recipe.load(tmp_path)


def test_the_source_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    assert recipe.find_source(Path(__file__).parent) == _SOURCE
    assert recipe.find_source(tmp_path) == _SOURCE  # the checkout that this code runs from


@pytest.mark.parametrize(
    ("path", "taken"),
    [("usr/lib/a.so", True), ("usr/lib/test/a.so", False), ("opt/usr/lib/a.so", False), ("usr/lib/a.sox", False)],
)
def test_a_selection_looks_at_whole_paths(path: str, taken: bool) -> None:
    assert Selection([r"usr/lib/.*\.so"], [r".*/test/.*"]).takes(path) is taken


def _dockerfile(name: str) -> dict[str, list[str]]:
    """Instructions to their arguments, in order."""
    text = (_SOURCE / f"runtimes/images/{name}.Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            instruction, _, rest = line.partition(" ")
            found.setdefault(instruction, []).append(rest.strip())
    return found


def _imported_by(module: str) -> set[str]:
    """Packages of others that importing the module can lead to."""
    graph = grimp.build_graph("iris_operator", "iris_runtimes", include_external_packages=True)
    start = module if module in graph.modules else module.rpartition(".")[0]
    seen, todo = {start}, [start]
    while todo:
        for each in graph.find_modules_directly_imported_by(todo.pop()):
            if each not in seen:
                seen.add(each)
                todo += [] if graph.is_module_squashed(each) else [each]
    return {each for each in seen if graph.is_module_squashed(each)} - sys.stdlib_module_names
