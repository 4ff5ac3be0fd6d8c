"""Run a helper program of the system; its failure is an error that shows what it said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from iris_devcluster.errors import CommandFailedError


def run(argv: Sequence[str], input_text: str | None = None) -> str:
    """Standard output of the command; raises CommandFailedError on a non-zero exit or a missing program."""
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(argv, input=input_text, capture_output=True, text=True, env=env, check=False)
    except FileNotFoundError:
        raise CommandFailedError(f"{argv[0]} is not installed; run: iris-devcluster setup") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise CommandFailedError(f"{' '.join(argv)} failed with {done.returncode}: {said}")
    return done.stdout
