"""What enroot can't do of a sandbox's spec, and the words it takes for the rest. Pure."""

from __future__ import annotations

from dataclasses import MISSING, fields

from iris_runtimes.errors import InvalidSpec, NotSupported
from iris_runtimes.execution import ExecRequest
from iris_runtimes.protocol import SandboxSpec

NAME = "enroot"
_NO_CGROUPS = "it makes no cgroups"
_NO_PRIVILEGES = "a command has what the agent's user has"
_REFUSED = {
    "cpu_limit_millicores": _NO_CGROUPS, "cpu_period_us": _NO_CGROUPS, "memory_limit_bytes": _NO_CGROUPS,
    "pids_limit": _NO_CGROUPS, "hugepage_limits_bytes": _NO_CGROUPS, "shm_size_bytes": "/dev/shm is the node's",
    "before": "the image's own script starts its command", "inside": "there is no way into a running sandbox but a session's",
    "network_namespace": "the network is the node's", "cdi_devices": "it reads no CDI files",
    "user": "commands run as the agent's user", "group": "commands run as the agent's user",
    "supplemental_groups": "commands run as the agent's user", "privileged": _NO_PRIVILEGES,
    "add_capabilities": _NO_PRIVILEGES, "drop_capabilities": _NO_PRIVILEGES,
}  # fmt: skip
# What `command` replaces: the image's own script. Arguments come as words.
RC_SCRIPT = 'cd "$1" && shift && exec "$@"\n'


def check_spec(spec: SandboxSpec) -> None:
    """NotSupported for the first field that is asked for and can't be had."""
    for field in fields(spec):
        default = field.default if field.default is not MISSING else None
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if field.name in _REFUSED and getattr(spec, field.name) != default:
            raise NotSupported(NAME, field.name, _REFUSED[field.name])
    if spec.working_dir and not spec.command:
        raise NotSupported(NAME, "working_dir", "without a command it is the image's")


def check_exec(request: ExecRequest) -> None:
    """The same for a command in a sandbox."""
    if not request.command:
        raise InvalidSpec("a command to run in a sandbox needs at least a program")
    for name in ("user", "group", "working_dir"):
        if getattr(request, name):
            raise NotSupported(NAME, f"execute({name})", "a command has the sandbox's")


def start_words(program: str, spec: SandboxSpec, rc_file: str) -> list[str]:
    """`enroot start` of a sandbox whose root file system has its id for a name."""
    env = [*spec.env, *([("NVIDIA_VISIBLE_DEVICES", ",".join(spec.gpus))] if spec.gpus else [])]
    words = [program, "start", "--rw"]
    for name, value in env:
        words += ["--env", f"{name}={value}"]
    for mount in spec.mounts:
        mode = "ro" if mount.read_only else "rw"
        words += ["--mount", f"{mount.host_path}:{mount.container_path}:none:x-create=auto,rbind,{mode}"]
    for tmpfs in spec.tmpfs:
        options = f"x-create=dir,size={tmpfs.size_bytes},mode={tmpfs.mode:o}"
        words += ["--mount", f"tmpfs:{tmpfs.container_path}:tmpfs:{options}"]
    for device in spec.devices:
        if device.host_path != device.container_path:  # the node's /dev is there as it is
            words += ["--mount", f"{device.host_path}:{device.container_path}:none:x-create=file,bind"]
    if spec.command:
        return [*words, "--rc", rc_file, "--", spec.id, spec.working_dir or "/", *spec.command, *spec.args]
    return [*words, "--", spec.id, *spec.args]


def import_uri(name: str, username: str = "") -> str:
    """docker://[USER@]REGISTRY#IMAGE:TAG of a full name."""
    if "@" in name:
        raise NotSupported(NAME, "image", "it imports by tag, not by digest")
    registry, _, image = name.partition("/")
    user = f"{username}@" if username else ""
    return f"docker://{user}{registry}#{image}"
