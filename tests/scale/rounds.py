"""How much processor time each round of a loop takes: everything that was ready at the same time.

No step may be long, but thousands of short ones that are ready at once are: nobody else is heard
before all of them are through. So the wait of a client that asks for next to nothing is that of a
round or two. As for single steps it is processor time that is measured, which others on the machine
do not change.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

SHOWN_NAMES = 4


class Round(NamedTuple):
    milliseconds: float
    what: str

    def __str__(self) -> str:
        return f"{self.milliseconds:.1f} ms: {self.what}"


class RoundProbe:
    """Notes the longest rounds of the loop that runs on the thread with this id."""

    def __init__(self, thread_id: int) -> None:
        self._thread_id = thread_id
        self.floor_ms = 2.0
        self._rounds: list[Round] = []
        self._steps = 0
        self._spent_ns: Counter[str] = Counter()

    def take(self) -> list[Round]:
        """The rounds above the floor since the last call, the longest first."""
        found, self._rounds = self._rounds, []
        return sorted(found, reverse=True)

    @contextmanager
    def installed(self) -> Iterator[None]:
        loops: Any = asyncio.BaseEventLoop
        handles: Any = asyncio.Handle
        run_once, run = loops._run_once, handles._run
        clock, ident = time.thread_time_ns, threading.get_ident

        def measured_round(loop: Any) -> None:
            if ident() != self._thread_id:
                run_once(loop)
                return
            self._steps = 0
            self._spent_ns.clear()
            before = clock()
            run_once(loop)
            spent_ms = (clock() - before) / 1e6
            if spent_ms > self.floor_ms:
                self._note(spent_ms)

        def measured_step(handle: Any) -> None:
            if ident() != self._thread_id:
                run(handle)
                return
            name = _name(handle)
            before = clock()
            run(handle)
            self._spent_ns[name] += clock() - before
            self._steps += 1

        loops._run_once, handles._run = measured_round, measured_step
        try:
            yield
        finally:
            loops._run_once, handles._run = run_once, run

    def _note(self, spent_ms: float) -> None:
        most = ", ".join(
            f"{name} {spent_ns / 1e6:.1f}"
            for name, spent_ns in self._spent_ns.most_common(SHOWN_NAMES)
        )
        self._rounds.append(Round(spent_ms, f"{self._steps} steps: {most}"))


def _name(handle: Any) -> str:
    """A task is named by the innermost coroutine that it waits in."""
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return getattr(callback, "__qualname__", None) or type(callback).__name__
    coroutine: Any = owner.get_coro()
    name = "a task"
    while hasattr(coroutine, "cr_code"):
        name, coroutine = coroutine.__qualname__, coroutine.cr_await
    return name
