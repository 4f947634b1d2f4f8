"""Where work off the loop runs: executors are made by a function that is handed in."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

Executors = Callable[[str, int], Executor]
"""Makes an executor of a name with a number of threads; who asked for it shuts it down."""


def thread_pool(name: str, threads: int) -> Executor:
    """Threads of this process; the name shows in lists of threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"kaa-{name}")
