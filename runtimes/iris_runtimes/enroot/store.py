"""What is on the disk of a sandbox: a folder with its run, its keeper's notes and, in the end, its exit."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from iris_runtimes.enroot import keeper as keeper_program
from iris_runtimes.enroot.keeper import EXIT, RUN, STATE, started, write
from iris_runtimes.errors import NodeFault
from iris_runtimes.protocol import Exit, Sandbox, SandboxSpec, SandboxState

_LOST_CODE = 255
_STEP_SECONDS = 0.02
_START_SECONDS = 20.0
_KILL_SECONDS = 10.0


class SandboxStore:
    """Below one folder, a folder for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ids(self) -> list[str]:
        """All that were begun."""
        return sorted(one.parent.name for one in self._folder.glob(f"*/{RUN}"))

    def look(self, sandbox_id: str) -> Sandbox | None:
        """As it is now."""
        run = self._read(sandbox_id, RUN)
        if run is None:
            return None
        labels: dict[str, str] = run["labels"]
        state = self._read(sandbox_id, STATE)
        alive = state is not None and _alive(state)
        ended = self._read(sandbox_id, EXIT)  # after the look at its keeper, which writes it and then goes
        if ended is not None:
            how = Exit(int(ended["code"]), datetime.fromtimestamp(ended["at"], UTC))
            return Sandbox(sandbox_id, labels, SandboxState.EXITED, 0, how)
        if state is None:
            return Sandbox(sandbox_id, labels, SandboxState.CREATED)
        if alive:
            return Sandbox(sandbox_id, labels, SandboxState.RUNNING, int(state["pid"]))
        lost = Exit(_LOST_CODE, _last_sign(Path(run["log"])), lost=True)
        return Sandbox(sandbox_id, labels, SandboxState.EXITED, 0, lost)

    def image_of(self, sandbox_id: str) -> str:
        """Full name of the image it stands on."""
        return str((self._read(sandbox_id, RUN) or {}).get("image", ""))

    def env_of(self, sandbox_id: str) -> dict[str, str]:
        """Its environment beyond the image's."""
        return dict((self._read(sandbox_id, RUN) or {}).get("task_env", {}))

    async def begin(self, spec: SandboxSpec, image: str, words: list[str], env: dict[str, str]) -> None:
        """Start its keeper, and return when the command was started."""
        folder = self._folder / spec.id
        folder.mkdir(parents=True, exist_ok=True)
        run = {"labels": dict(spec.labels), "log": str(spec.log_path), "words": words, "env": env, "image": image,
               "task_env": dict(spec.env)}  # fmt: skip
        write(folder / RUN, run)
        keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", keeper_program.__file__, str(folder),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not (folder / STATE).exists():
                    if keeper.returncode is not None:
                        assert keeper.stderr is not None
                        words_of_it = (await keeper.stderr.read()).decode(errors="replace").strip().splitlines()
                        raise NodeFault(f"the sandbox's keeper ended at once: {' '.join(words_of_it[-1:])}")
                    await asyncio.sleep(_STEP_SECONDS)
        except TimeoutError as error:
            raise NodeFault(f"the sandbox's keeper has not started it in {_START_SECONDS:.0f} s") from error

    async def end(self, sandbox_id: str) -> None:
        """Kill all of it. NodeFault when it can't be."""
        state = self._read(sandbox_id, STATE)
        if state is None or not _alive(state):
            return
        os.kill(state["keeper"], signal.SIGTERM)  # it kills its descendants
        try:
            async with asyncio.timeout(_KILL_SECONDS):
                await _gone(state)
        except TimeoutError as error:
            raise NodeFault(f"sandbox {sandbox_id} still runs {_KILL_SECONDS:.0f} s after SIGKILL") from error

    def forget(self, sandbox_id: str) -> None:
        """Remove its folder."""
        shutil.rmtree(self._folder / sandbox_id, ignore_errors=True)

    def _read(self, sandbox_id: str, name: str) -> dict[str, Any] | None:
        with suppress(OSError):
            found: dict[str, Any] = json.loads((self._folder / sandbox_id / name).read_text())
            return found
        return None


def _alive(state: dict[str, Any]) -> bool:
    """Whether its keeper is."""
    return started(int(state["keeper"])) == str(state["keeper_started"])


async def _gone(state: dict[str, Any]) -> None:
    """Return when its keeper is no more; it is not always our child, so nobody tells."""
    while _alive(state):  # noqa: ASYNC110
        await asyncio.sleep(_STEP_SECONDS)


def _last_sign(log: Path) -> datetime:
    with suppress(OSError):
        return datetime.fromtimestamp(log.stat().st_mtime, UTC)
    return datetime.now(UTC)
