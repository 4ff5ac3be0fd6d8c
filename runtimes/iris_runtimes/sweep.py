"""How a runtime that can signal a command alone, or not at all, ends all that the command has started."""

from __future__ import annotations

from iris_runtimes.execution import ExecRequest

# In the environment of a command and so of all that it starts
MARK = "IRIS_EXEC_ID"
# Twice: what a process started while it was looked for is found the second time
_SCRIPT = f"""
for round in 1 2; do for one in /proc/[0-9]*; do
  if $3 tr '\\000' '\\n' <"$one/environ" | $3 grep -qx "{MARK}=$1"; then kill "-$2" "${{one#/proc/}}"; fi
done; test "$2" = 9 || break; done 2>/dev/null
"""


def sweep_request(mark: str, signal: int = 9, busybox: str = "") -> ExecRequest:
    """A command for the same sandbox that signals every process with that mark; with the sandbox's `busybox`, else by the
    image's sh, tr and grep."""
    shell = [busybox, "sh"] if busybox else ["sh"]
    return ExecRequest([*shell, "-c", _SCRIPT, "sh", mark, str(signal), busybox], user=0)
