"""What containerd runs before and after each sandbox of a shared shim, in place of the shim's own program.

containerd asks the shim's program twice for each container: `start` tells where its shim listens, `delete` clears away what a
dead shim has left. For a sandbox that joins a shim there is nothing to do in either but to cost a Go program, and in `delete`
a runc besides: about a fifth of a sandbox' processor time. This says the same in a page of shell; whatever is not as it is
meant to be, the shim's own program does.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

RUNC_STATE = "/run/containerd/runc"
_BUSYBOX, _SCRIPT = "busybox", "shim-helper"
# $0 is a link named as the keeper, the working directory the sandbox' bundle. The answer to `delete` is a DeleteResponse with
# exit status 137 (field 2), as the shim's own program would give; containerd hears it only of a task whose end it did not see.
_LINES = r"""#!{busybox} sh
keeper=${{0##*/}} id= namespace= containerd= word= before= listens=
for word; do
  case $before in
    -id) id=$word ;;
    -namespace) namespace=$word ;;
    -publish-binary) containerd=$word ;;
  esac
  before=$word
done
[ "$word" = -info ] && exit 0
bootstrap=../$keeper/bootstrap.json
if [ "$id" != "$keeper" ] && [ -r "$bootstrap" ]; then
  read -r listens <"$bootstrap"
  case $word$listens in
    start?*) echo "$listens"; exit 0 ;;
    delete?*) [ -e "{state}/$namespace/$id" ] || {{ printf '\020\211\001'; exit 0; }} ;;
  esac
fi
PATH=$PATH:${{containerd%/*}}
exec containerd-shim-runc-v2 "$@"
"""


class ShimHelper:
    """The helper's files in a folder that has the same path here and for containerd."""

    def __init__(self, folder: Path, busybox: Path | None) -> None:
        """`busybox`: a static one on this machine; without it there is no helper."""
        self._folder, self._source = folder, busybox

    def install(self, keeper: str) -> str:
        """The runtime's name for this keeper and its sandboxes; "": there is no helper here. Blocks; OSError."""
        if self._source is None or not self._source.exists():
            return ""
        self._folder.mkdir(parents=True, exist_ok=True)
        busybox, script = self._folder / _BUSYBOX, self._folder / _SCRIPT
        write_executable(busybox, self._source.read_bytes())
        write_executable(script, _LINES.format(busybox=busybox, state=RUNC_STATE).encode())
        link = self._folder / keeper
        link.symlink_to(_SCRIPT)
        return str(link)

    def remove(self, keeper: str) -> None:
        """The keeper and all its sandboxes are gone."""
        with suppress(FileNotFoundError):
            (self._folder / keeper).unlink()


def write_executable(target: Path, content: bytes) -> None:
    """Written whole or not at all; a file that is there with this content may be running and is left."""
    if target.exists() and target.read_bytes() == content:
        return
    fresh = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.replace(target)
