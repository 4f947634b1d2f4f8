"""Watches that nothing holds the event loop, and names what does.

One loop serves every client, so that a slow step is everybody's delay. The loop beats every
`BEAT_SECONDS`. A thread beside it sleeps until the next beat should have come; if it has not, it
looks at the stack of the loop's thread every `LOOK_SECONDS` until the beat comes. A loop that used
more than `LOOP_HELD_MS_MAX` of the processor meanwhile, or stood still for `LOOP_BLOCKED_MS_MAX`,
is reported. What is not processor time was a system call, another thread, or a machine that had no
time for it. A step that ends before the second beat after its start may go unseen.

The culprit is the innermost function that most of the looks found on the stack: the one that goes
through ten thousand partitions, and not the write to a file that it does for each of them, which
others do as well. A culprit that was reported, with the same callers, is not reported again for
`AGAIN_SECONDS`. The collector of garbage lets no thread look while it walks, and would be taken for
the function that made one object too many; so it is timed by itself. The guard costs some twenty
short turns of the loop and of the thread per second, and nothing at all while the loop is late.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from kaa.limits import LOOP_BLOCKED_MS_MAX, LOOP_HELD_MS_MAX

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

BEAT_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.002
AGAIN_SECONDS: Final = 60.0
_FRAMES_SHOWN: Final = 8
_PACKAGE: Final = __file__.replace("\\", "/").rpartition("observe/")[0]
# What runs the turns of a loop.
_LOOP_FILES: Final = ("asyncio/events.py", "asyncio/runners.py", "uvloop/__init__.py")

# The functions of a stack, the outermost first, and the line in each.
Stack = tuple[tuple[str, int], ...]


class LoopGuard:
    """Guards the loop that it is started on, until `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[str], None]) -> None:
        self._loop = loop
        self._report = report
        self._beats = 0
        self._timer: asyncio.TimerHandle | None = None
        # Of the thread of the loop, and its processor time when the collector began there.
        self._ident = 0
        self._collecting_since = 0.0
        self._stopping = threading.Event()
        # By the functions from the outermost to the culprit, when it was reported.
        self._reported: dict[tuple[str, ...], float] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """On the thread of the loop."""
        self._ident = ident = threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, args=(ident,), name="kaa-loop-guard", daemon=True
        )
        gc.callbacks.append(self._collect)
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            gc.callbacks.remove(self._collect)
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        self._beats += 1
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        """The collector begins or ends, on whichever thread called it."""
        if threading.get_ident() != self._ident:
            return
        if phase == "start":
            self._collecting_since = time.thread_time()
            return
        spent_ms = (time.thread_time() - self._collecting_since) * 1000
        generation = f"generation {info['generation']}"
        if spent_ms > LOOP_HELD_MS_MAX and self._note(("the collector", generation)):
            text = f"the loop was held for {spent_ms:.0f} ms by the collector of garbage"
            self._loop.call_soon_threadsafe(self._report, f"{text} ({generation})")

    # --- the thread beside

    def _watch(self, ident: int) -> None:
        cpu_clock = _processor_clock(ident)
        seen = self._beats
        # A beat must come within its interval.
        while not self._stopping.wait(BEAT_SECONDS + LOOK_SECONDS):
            if self._beats == seen:
                self._look(ident, seen, cpu_clock)
            seen = self._beats

    def _look(self, ident: int, seen: int, cpu_clock: Callable[[], float]) -> None:
        """The loop is late: looks what it does until it beats again."""
        began, cpu_began = time.monotonic(), cpu_clock()
        stacks: Counter[Stack] = Counter()
        while self._beats == seen and not self._stopping.is_set():
            frame = sys._current_frames().get(ident)  # noqa: SLF001  There is no other way.
            stack = _stack(frame)
            if stack:
                stacks[stack] += 1
            del frame
            self._stopping.wait(LOOK_SECONDS)
        held_ms = (time.monotonic() - began) * 1000
        cpu_ms = (cpu_clock() - cpu_began) * 1000
        if stacks and (cpu_ms > LOOP_HELD_MS_MAX or held_ms > LOOP_BLOCKED_MS_MAX):
            self._tell(stacks, held_ms, cpu_ms)

    def _tell(self, stacks: Counter[Stack], held_ms: float, cpu_ms: float) -> None:
        functions, line = _culprit(stacks)
        if not self._note(functions):
            return
        place, *callers = functions[: -_FRAMES_SHOWN - 1 : -1]
        path, _, name = place.partition(" ")
        who = " < ".join([f"{path}:{line} {name}", *callers])
        text = f"the loop was held for {held_ms:.0f} ms ({cpu_ms:.0f} of the processor) by {who}"
        self._loop.call_soon_threadsafe(self._report, text)

    def _note(self, culprit: tuple[str, ...]) -> bool:
        """Notes that something is about to be reported; False if it was lately."""
        now = time.monotonic()
        for stack, at in tuple(self._reported.items()):
            if now - at >= AGAIN_SECONDS:
                self._reported.pop(stack, None)
        if culprit in self._reported:
            return False
        self._reported[culprit] = now
        return True


def _processor_clock(ident: int) -> Callable[[], float]:
    """The processor time of another thread, where the system tells it."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    clock_id = time.pthread_getcpuclockid(ident)

    def read() -> float:
        return time.clock_gettime(clock_id)

    return read


def _stack(frame: FrameType | None) -> Stack:
    """What of a stack is this project's, up to the loop; all of it if nothing is."""
    found: list[tuple[str, int]] = []
    others: list[tuple[str, int]] = []
    while frame is not None and not frame.f_code.co_filename.endswith(_LOOP_FILES):
        code = frame.f_code
        path = code.co_filename.replace("\\", "/")
        if path.startswith(_PACKAGE):
            found.append((f"{path.removeprefix(_PACKAGE)} {code.co_qualname}", frame.f_lineno))
        else:
            others.append((f"{path.rpartition('/')[2]} {code.co_qualname}", frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found or others))


def _culprit(stacks: Counter[Stack]) -> tuple[tuple[str, ...], int]:
    """The functions down to the innermost that most of the stacks share, and its line."""
    shared: Counter[tuple[str, ...]] = Counter()
    for stack, count in stacks.items():
        functions = tuple(function for function, _ in stack)
        for depth in range(1, len(stack) + 1):
            shared[functions[:depth]] += count
    most = [functions for functions, count in shared.items() if 2 * count > stacks.total()]
    found = max(most, key=len) if most else shared.most_common(1)[0][0]
    depth = len(found)
    lines: Counter[int] = Counter()
    for stack, count in stacks.items():
        if tuple(function for function, _ in stack[:depth]) == found:
            lines[stack[depth - 1][1]] += count
    return found, lines.most_common(1)[0][0]
