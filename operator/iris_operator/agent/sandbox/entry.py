"""The script that sets a Task's container up and then becomes its command. Pure.

It is for the agent's own busybox, so it runs in any image; the command is executed by it, so that it is process 1 with its own
exit code. It tells how far it is in a file (agent/sandbox/stages). Set-up commands and the command have exactly the
environment that the container was given: not what a shell adds (PWD, SHLVL), nor without what a shell has no name for (`a.b=c`).
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from importlib.resources import files

from iris_operator.agent.causes import stop_signal
from iris_operator.agent.sandbox.stages import AT, COMMAND, FAILED, MISSING, SCRIPT
from iris_operator.api.task import Task
from iris_runtimes.errors import InvalidSpec
from iris_runtimes.hold import BUSYBOX

STAGE_FILE, START_FILE, SCRIPT_FILE = "/run/iris/stage", "/run/iris/start", "/run/iris/setup-script"
LONGEST_SCRIPT_BYTES = 256 * 2**10
# Of one word of a command, the kernel takes 128 KiB at most.
_WORD_BYTES = 100_000

_LIBRARY = f"""\
B={BUSYBOX} STAGE={STAGE_FILE} child=

tell() {{ echo "$*" >"$STAGE"; }} 2>/dev/null

try() {{
  if [ -e "$1" ]; then code=126; fi
  if [ -f "$1" ] && [ -x "$1" ]; then found=$1; fi
}}

# Where PATH has the program $1, in `found`; else a shell's exit code for that, in `code`. By ourselves, for busybox would
# take its own programs of that name.
seek() {{
  found= code=127
  case $1 in */*) try "$1"; return;; esac
  places=$PATH:
  while [ -z "$found" ] && [ -n "$places" ]; do
    place=${{places%%:*}} places=${{places#*:}}
    try "${{place:-.}}/$1"
  done
}}

# Becomes these words, with the environment that this process was given. What env would take for a variable, a shell takes.
become() {{
  case $1 in *=*) set -- "$B" sh -c 'exec "$0" "$@"' "$@";; esac
  while IFS= read -r -d '' pair; do set -- "$pair" "$@"; done </proc/self/environ
  exec "$B" env -i "$@"
}}

stop() {{
  trap '' "$1"
  if [ -n "$child" ]; then kill -"$1" "$child" 2>/dev/null; wait "$child"; fi
  exit $((128 + $1))
}}

failed() {{
  tell {FAILED} "$1" "$2"
  exit "$2"
}}

# Step $1 is the words after it. In the background, for a shell hears no signal while it waits for one in front.
step() {{
  number=$1; shift
  tell {AT} "$number"
  seek "$1"
  if [ -z "$found" ]; then
    if [ "$code" = 127 ]; then echo "$1: not found"; else echo "$1: can't be executed"; fi >&2
    failed "$number" "$code"
  fi
  shift
  become "$found" "$@" &
  child=$!
  wait "$child"; code=$?
  child=
  if [ "$code" != 0 ]; then failed "$number" "$code"; fi
}}

begin() {{
  seek "$1"
  if [ -z "$found" ]; then
    if [ "$code" = 127 ]; then echo "$1: not found"; else echo "$1: can't be executed"; fi >&2
    tell {MISSING} "$code"
    exit "$code"
  fi
  shift
  tell {COMMAND}
  become "$found" "$@"
}}
"""

# bash where the image has it; else busybox' shell, which knows pipefail too.
_SHELL = 'seek bash; if [ -n "$found" ]; then set -- "$found"; else set -- "$B" sh; fi\n'


def before(start_file: str = START_FILE) -> list[str]:
    """The words that are put before the Task's command."""
    return [BUSYBOX, "sh", start_file]


def start_script(task: Task) -> str:
    """What `before` runs. InvalidSpec for words that no process can be given."""
    lines = ["# made by the Iris agent for this attempt", _LIBRARY]
    number = stop_signal(task)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        lines.append(f"trap 'stop {number}' {number}")
    if task.spec.container_lifetime.setup_script is not None:
        lines.append(f'run_script() {{\n{_SHELL}step {SCRIPT} "$@" -eo pipefail {SCRIPT_FILE}\n}}\nrun_script')
    for place, one in enumerate(task.spec.setup, start=1):
        lines.append(f"step {place} {_words(one.command)}")
    lines.append('begin "$@"')
    return "\n".join(lines) + "\n"


def script_text(task: Task, from_config_map: str) -> str:
    """containerLifetime.setupScript: `from_config_map` when it is there. InvalidSpec when it is too long; empty without one."""
    wanted = task.spec.container_lifetime.setup_script
    if wanted is None:
        return ""
    text = _packaged(wanted.packaged) if wanted.packaged else wanted.inline or from_config_map
    size = len(text.encode())
    if size > LONGEST_SCRIPT_BYTES:
        raise InvalidSpec(
            f"containerLifetime.setupScript has {size} bytes, at most {LONGEST_SCRIPT_BYTES} (256 KiB) fit"
        )
    return text


def script_command(text: str) -> list[str]:
    """A command that runs such a script where nothing is mounted for it: in a container that is there already.

    It has the script in its words, in pieces, and puts it into a file first.
    """
    run = (
        'file=$("$B" mktemp) && for piece in "$@"; do printf %s "$piece"; done >"$file" || exit 1\n'
        + _SHELL
        + 'become "$@" -eo pipefail "$file"\n'
    )
    return [BUSYBOX, "sh", "-c", _LIBRARY + run, "setup-script", *_pieces(text)]


def _pieces(text: str) -> list[str]:
    # Of a character, UTF-8 makes four bytes at most.
    step = _WORD_BYTES // 4
    return [text[start : start + step] for start in range(0, len(text), step)]


def _words(command: Sequence[str]) -> str:
    if any("\0" in word for word in command):
        raise InvalidSpec("a command of setup has a NUL character in a word, which no process can be given")
    return shlex.join(command)


def _packaged(name: str) -> str:
    return files("iris_operator.agent").joinpath("packaged", f"{name}.sh").read_text()
