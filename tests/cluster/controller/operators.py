"""`iris-operator run` as a process of its own, to start, kill and start again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp

from iris_devcluster.coreweave.testing.api_server import free_ports


class Operator:
    """One replica. `more`: options of its own."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, *more: str) -> None:
        (self.port,) = free_ports(1)
        self.log = log
        program = Path(sys.executable).with_name("iris-operator")
        command = [str(program), "run", "--namespace", namespace]
        options = ["--kubeconfig", str(kubeconfig), "--port", str(self.port)]
        environment = {**os.environ, "POD_NAMESPACE": namespace}
        with log.open("ab") as file:
            self._process = subprocess.Popen([*command, *options, *more], stdout=file, stderr=file, env=environment)

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
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def end(self) -> int:
        """As the kubelet would; the exit code."""
        self.tell_to_end()
        return self.ended()

    def tell_to_end(self) -> None:
        """SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

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
