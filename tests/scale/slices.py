"""How much processor time each turn of a loop takes, and whose it is.

Every callback of an asyncio loop runs through `Handle._run`. The probe wraps that and reads the
processor time of the thread before and after. A busy machine makes a callback take longer, but not
cost more, so that what is measured holds on any machine of a kind.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Slice(NamedTuple):
    milliseconds: float
    what: str


class SliceProbe:
    """Notes the longest slices of the loop that runs on the thread with this id."""

    def __init__(self) -> None:
        self.thread_id = threading.get_ident()
        self.floor_ms = 1.0
        self.slices: list[Slice] = []

    def take(self) -> list[Slice]:
        """The slices above the floor since the last call, the longest first."""
        found, self.slices = self.slices, []
        return sorted(found, reverse=True)

    @contextmanager
    def installed(self) -> Iterator[None]:
        handles: Any = asyncio.Handle
        run = handles._run
        clock, ident = time.thread_time_ns, threading.get_ident
        collecting = 0
        collected: list[str] = []

        def collect(phase: str, info: dict[str, int]) -> None:
            nonlocal collecting
            if ident() == self.thread_id:
                if phase == "start":
                    collecting = clock()
                else:
                    spent_ms = (clock() - collecting) / 1e6
                    collected.append(f" (garbage {info['generation']}: {spent_ms:.1f} ms)")

        def measured(handle: Any) -> None:
            if ident() != self.thread_id:
                run(handle)
                return
            collected.clear()
            before = clock()
            run(handle)
            spent_ms = (clock() - before) / 1e6
            if spent_ms > self.floor_ms:
                self.slices.append(Slice(spent_ms, _name(handle) + "".join(collected)))

        handles._run = measured
        gc.callbacks.append(collect)
        try:
            yield
        finally:
            gc.callbacks.remove(collect)
            handles._run = run


def _name(handle: Any) -> str:
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return repr(owner.get_coro())
    return repr(callback)
