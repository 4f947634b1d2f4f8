"""A node that kills itself at the Nth system call of a kind, for machines without strace.

`python -c` of a test calls `install` before the node starts. It stands in front of the functions of
`os` that change files, counts their calls over all threads, and sends SIGKILL to its own process
when the count is reached: before the call, or for a torn write after half of it. Nothing of the
node itself knows of it.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

# By kind the functions of `os` that make these system calls.
FUNCTIONS: Final = {
    "write": ("pwritev", "pwrite"),
    "sync": ("fsync", "fdatasync"),
    "rename": ("rename", "replace"),
    "remove": ("unlink", "rmdir"),
    "make": ("mkdir", "ftruncate"),
}
TORN_WRITE: Final = "torn write"


def install(kind: str, number: int, counts_file: str) -> None:
    """Kills at the call of this number; one that lives writes how many there were."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()
    target = "write" if kind == TORN_WRITE else kind

    def reached(found: str) -> bool:
        with lock:
            counts[found] += 1
            return found == target and counts[found] == number

    for found, names in FUNCTIONS.items():
        for name in names:
            if hasattr(os, name):
                setattr(os, name, _counted(getattr(os, name), found, kind, reached))
    lines = (f"{found} {counts[found]}\n" for found in FUNCTIONS)
    atexit.register(lambda: Path(counts_file).write_text("".join(lines)))


def _counted(
    call: Callable[..., Any], found: str, kind: str, reached: Callable[[str], bool]
) -> Callable[..., Any]:
    def counted(*arguments: Any, **named: Any) -> Any:
        if reached(found):
            if kind == TORN_WRITE:
                descriptor, content, position = arguments
                os.lseek(descriptor, position, os.SEEK_SET)
                os.write(descriptor, _half(content))
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        return call(*arguments, **named)

    return counted


def _half(content: Any) -> bytes:
    whole = b"".join(content) if isinstance(content, Sequence) else bytes(content)
    return whole[: len(whole) // 2]
