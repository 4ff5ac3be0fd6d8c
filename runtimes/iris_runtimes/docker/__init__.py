"""The Docker Engine by its HTTP API, for machines without a containerd of their own.

On aiohttp alone, which the agent has anyway: aiodocker 0.27 decodes logs as text and can't end a command's input while it
still writes, and both are needed here.
"""

from iris_runtimes.docker.driver import DockerRuntime

__all__ = ["DockerRuntime"]
