"""What every driver does the same way: its task, its start, its result."""

from __future__ import annotations

import json
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED: Final = 7
_TEXT: Final = b'{"event":"page-view","path":"/products/","user":'


def run(tasks: dict[str, Callable[[dict[str, Any], Callable[[], None]], dict[str, Any]]]) -> None:
    """Runs the task that the command line names.

    A task is called with its parameters and with `begin`, which it calls when it has connected: it
    returns when the measurement starts.
    """
    name, parameters = sys.argv[1], json.loads(sys.argv[2])
    cpu_started = 0.0

    def begin() -> None:
        nonlocal cpu_started
        print("ready", flush=True)
        sys.stdin.readline()
        cpu_started = time.process_time()

    result = tasks[name](parameters, begin)
    result["driver_cpu_seconds"] = time.process_time() - cpu_started
    print(json.dumps(result), flush=True)


def payloads(size: int, count: int = 100) -> list[bytes]:
    """Values of which a good half is noise, as in real events: they compress, but not away."""
    random = Random(_SEED)
    found = []
    for _ in range(count):
        pieces = bytearray()
        while len(pieces) < size:
            pieces += _TEXT + random.randbytes(40).hex().encode() + random.randbytes(16)
        found.append(bytes(pieces[:size]))
    return found
