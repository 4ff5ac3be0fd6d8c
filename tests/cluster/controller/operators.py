"""`iris-operator run` as a process of its own, to start, kill and start again."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import aiohttp

from iris_devcluster.coreweave.testing.api_server import free_ports
from tests.programs import Program


class Operator:
    """One replica. `more`: options of its own."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, *more: str) -> None:
        (self.port,) = free_ports(1)
        self.log = log
        command = ["iris-operator", "run", "--namespace", namespace]
        options = ["--kubeconfig", str(kubeconfig), "--port", str(self.port)]
        environment = {**os.environ, "POD_NAMESPACE": namespace}
        with log.open("ab") as file, Path(os.devnull).open("rb") as nothing:
            words = [*command, *options, *more]
            self._process = Program(words, nothing.fileno(), file.fileno(), file.fileno(), environment)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """As the kernel would."""
        self._process.kill()
        self._process.wait(10)

    def end(self) -> int:
        """As the kubelet would; the exit code."""
        self.tell_to_end()
        return self.ended()

    def tell_to_end(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def ended(self) -> int:
        """The exit code, once there is one."""
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    async def health(self) -> dict[str, Any]:
        """GET /health; empty while it doesn't answer."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session,
                session.get(f"http://127.0.0.1:{self.port}/health") as answer,
            ):
                found: dict[str, Any] = await answer.json()
                return found
        except (aiohttp.ClientError, TimeoutError):
            return {}

    async def leads(self, seconds: float = 30) -> None:
        """Wait until it does."""
        for _ in range(int(seconds * 10)):
            assert self.exit_code is None, self.log.read_text()
            if (await self.health()).get("leading"):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"does not lead after {seconds} s: {self.log.read_text()}")
