"""How much processor time each turn of a loop takes, and whose it is.

Every callback of an asyncio loop runs through `Handle._run`. The probe wraps that and reads the
processor time of the thread before and after. A busy machine makes a callback take longer, but not
cost more, so that what is measured holds on any machine of a kind. A thread beside it looks at the
stack of a turn that lasts, so that the one who reads of it need not guess.

A virtual machine whose processors are given to others counts a part of that as time of the thread
that ran: an empty loop has steps of 90 ms then. What the system says was stolen since shortly
before a long turn is taken off it, and shown.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from kaa.limits import LOOP_HELD_MS_MAX

LOOK_SECONDS = 0.002
# A turn is looked at when it has lasted for so long.
LASTS_SECONDS = 0.005
SHOWN_FRAMES = 6
# The last generation of the collector.
OLDEST = 2
# How often stolen time is noted, in looks, and how many of these notes are kept.
LOOKS_PER_NOTE = 5
NOTES_MAX = 500
_PROCESSORS = Path("/proc/stat")
# The system counts in hundredths of a second, in this column of the line of all processors.
_STOLEN_COLUMN, _STOLEN_MS = 8, 10.0


# Milliseconds in the system, and page faults.
Usage = tuple[float, float]


class Slice(NamedTuple):
    milliseconds: float
    what: str

    def __str__(self) -> str:
        return f"{self.milliseconds:.1f} ms: {self.what}"


class SliceProbe:
    """Notes the longest slices of the loop that runs on the thread with this id."""

    def __init__(self) -> None:
        self.thread_id = threading.get_ident()
        self.floor_ms = 1.0
        self.slices: list[Slice] = []
        # When the turn that runs has begun; 0 between turns.
        self._began = 0.0
        self._looks: Counter[str] = Counter()
        # When it was noted, and milliseconds that were stolen until then.
        self._stolen: deque[tuple[float, float]] = deque([(0.0, _stolen_ms())], NOTES_MAX)
        self._collecting_ns = 0
        self._collected: list[str] = []
        # Walks of the collector through everything there is, which no turn can split.
        self.full_collections = 0

    def take(self) -> list[Slice]:
        """The slices above the floor since the last call, the longest first."""
        found, self.slices = self.slices, []
        return sorted(found, reverse=True)

    @contextmanager
    def installed(self) -> Iterator[None]:
        handles: Any = asyncio.Handle
        run = handles._run
        clock, ident = time.thread_time_ns, threading.get_ident

        def measured(handle: Any) -> None:
            if ident() != self.thread_id:
                run(handle)
                return
            coroutine = _coroutine(handle)
            self._collected.clear()
            self._looks.clear()
            used = _usage()
            self._began = began = time.monotonic()
            before = clock()
            run(handle)
            spent_ms = (clock() - before) / 1e6
            self._began = 0.0
            if spent_ms > self.floor_ms:
                self._note(_name(handle, coroutine), began, spent_ms, used)

        ended = threading.Event()
        looking = threading.Thread(target=self._look, args=(ended,), daemon=True)
        handles._run = measured
        gc.callbacks.append(self._collect)
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()
            gc.callbacks.remove(self._collect)
            handles._run = run

    def _note(self, name: str, began: float, spent_ms: float, before: Usage) -> None:
        what = name + "".join(self._collected)
        if spent_ms > LOOP_HELD_MS_MAX:
            known = max((note for note in tuple(self._stolen) if note[0] <= began), default=None)
            stolen_ms = 0.0 if known is None else _stolen_ms() - known[1]
            if stolen_ms:
                what += f" (stolen: {stolen_ms:.0f} of {spent_ms:.0f} ms)"
                spent_ms = max(0.0, spent_ms - stolen_ms)
        system_ms, faults = (now - then for now, then in zip(_usage(), before, strict=True))
        if system_ms > self.floor_ms:
            # Of a machine that has to find memory for others, more than the step asked for.
            what += f" (system: {system_ms:.0f} ms, {faults:.0f} page faults)"
        for place, count in self._looks.most_common(2):
            what += f"\n    {count} looks: {place}"
        self.slices.append(Slice(spent_ms, what))

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() != self.thread_id:
            return
        if phase == "start":
            self._collecting_ns = time.thread_time_ns()
            return
        spent_ms = (time.thread_time_ns() - self._collecting_ns) / 1e6
        self.full_collections += info["generation"] == OLDEST
        self._collected.append(f" (garbage {info['generation']}: {spent_ms:.1f} ms)")

    def _look(self, ended: threading.Event) -> None:
        looks = 0
        while not ended.wait(LOOK_SECONDS):
            looks += 1
            if looks % LOOKS_PER_NOTE == 0:
                self._stolen.append((time.monotonic(), _stolen_ms()))
            began = self._began
            if began and time.monotonic() - began > LASTS_SECONDS:
                place = _place(sys._current_frames().get(self.thread_id))
                if self._began == began:
                    self._looks[place] += 1


def _stolen_ms() -> float:
    """What other machines had of the processors of this one; 0 where nobody counts it."""
    try:
        with _PROCESSORS.open() as file:
            return int(file.readline().split()[_STOLEN_COLUMN]) * _STOLEN_MS
    except (OSError, IndexError):
        return 0.0


def _usage() -> Usage:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_stime * 1e3, used.ru_minflt + used.ru_majflt


def _place(frame: FrameType | None) -> str:
    """Where a thread is, the innermost first, up to the loop."""
    found: list[str] = []
    while frame is not None and len(found) < SHOWN_FRAMES:
        if frame.f_code is SliceProbe.installed.__code__ or "asyncio" in frame.f_code.co_filename:
            break
        found.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


def _coroutine(handle: Any) -> Any:
    """That of a task, which forgets it when it has ended."""
    owner = getattr(handle._callback, "__self__", None)
    return owner.get_coro() if isinstance(owner, asyncio.Task) else None


def _name(handle: Any, coroutine: Any) -> str:
    """A task is named by the coroutines that wait for each other."""
    if coroutine is None:
        return repr(handle._callback)
    found: list[str] = []
    while hasattr(coroutine, "cr_code"):
        found.append(coroutine.__qualname__)
        coroutine = coroutine.cr_await
    return " > ".join(found)
