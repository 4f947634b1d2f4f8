"""A node that kills itself at the Nth system call of a kind, for machines without strace.

`python -c` of a test calls `install` before the node starts. It stands in front of the functions of
`os` that change files, counts their calls over all threads, and sends SIGKILL to its own process
when the count is reached: before the call, or for a torn write after half of it. With a file that
arms it, only calls made while that file is there are counted. With `install_on_order` that file
also says at which call, so that a node that runs can be told. Nothing of the node itself knows of
it.
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


def install(kind: str, number: int, counts_file: str, arming_file: str | None = None) -> None:
    """Kills at the call of this number; one that lives writes how many there were."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()

    def reached(found: str) -> str | None:
        if arming_file is not None and not Path(arming_file).exists():
            return None
        with lock:
            counts[found] += 1
            return kind if found == _target(kind) and counts[found] == number else None

    _stand_in_front(reached)
    lines = (f"{found} {counts[found]}\n" for found in FUNCTIONS)
    atexit.register(lambda: Path(counts_file).write_text("".join(lines)))


def install_on_order(order_file: str) -> None:
    """Kills at the call that the file names, its kind and number on a line each, counted from when
    the file is there.
    """
    counts: Counter[str] = Counter()
    lock = threading.Lock()
    last_order = ""

    def reached(found: str) -> str | None:
        nonlocal last_order
        try:
            order = Path(order_file).read_text()
        except FileNotFoundError:
            return None
        kind, number = order.splitlines()
        with lock:
            if order != last_order:
                counts.clear()
                last_order = order
            counts[found] += 1
            is_it = found == _target(kind) and counts[found] == int(number)
            return kind if is_it else None

    _stand_in_front(reached)


def _target(kind: str) -> str:
    return "write" if kind == TORN_WRITE else kind


def _stand_in_front(reached: Callable[[str], str | None]) -> None:
    for found, names in FUNCTIONS.items():
        for name in names:
            if hasattr(os, name):
                setattr(os, name, _counted(getattr(os, name), found, reached))


def _counted(
    call: Callable[..., Any], found: str, reached: Callable[[str], str | None]
) -> Callable[..., Any]:
    """Calls through, unless `reached` names the kind of death that this call is."""

    def counted(*arguments: Any, **named: Any) -> Any:
        kind = reached(found)
        if kind is not None:
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
