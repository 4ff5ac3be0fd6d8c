"""enroot, for machines that have nothing else: a file system of its own for a command, and no isolation beyond that.

What it has no word for is refused by NotSupported, which names the field; docs/runtimes.md has the list. Written from
enroot's documentation and tested on a stand-in of its program: no machine with a real one was at hand.
"""

from iris_runtimes.enroot.driver import EnrootRuntime

__all__ = ["EnrootRuntime"]
