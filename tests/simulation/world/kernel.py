"""Virtual time: one order of events for all processes of a simulated cluster.

The kernel owns the only clock and the only chance. A process is an event loop (`SimLoop`) with its
own callbacks and timers; everything between processes (packets, disks, faults) is an event of the
kernel at a time. One step is one of:

1. an event whose time has come is performed;
2. a process that has something to do, chosen by the seed, runs one round of its loop;
3. nobody has anything to do, and time moves to whatever comes next.

Within a process callbacks run in the order in which they were scheduled, as asyncio promises. What
asyncio does not promise is left to the seed: which process runs first, in which order ready sockets
are served, and in which order timers of the same moment fire. A round costs a little virtual time,
so that a process which only yields cannot stop the clock.

Every line of the trace goes into a digest; two runs of a seed must give the same one.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

ROUND_SECONDS = 0.00001
LINES_KEPT = 2_000


class Steppable(Protocol):
    """A process as the kernel sees it; all times are those of the kernel."""

    def has_work(self) -> bool: ...

    def iterate(self) -> None: ...

    def kill(self) -> None: ...


class StuckError(AssertionError):
    """Nothing can ever happen again, or something did not happen within its deadline."""


class Kernel:
    """See the module's text."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self.rounds = 0
        # Processes that may have something to do; each comes here by itself.
        self.busy: dict[Steppable, None] = {}
        # Processes that live.
        self.living: dict[Steppable, None] = {}
        # Called with the process whose round is over.
        self.after_round: Callable[[Any], None] | None = None
        self.lines: deque[str] = deque(maxlen=None if is_traced else LINES_KEPT)
        self._digest = blake2b(digest_size=16)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def end(self) -> None:
        """Whatever still lives ends here; left to the collector, it complains in later tests."""
        for process in tuple(self.living):
            process.kill()

    # --- the trace

    def say(self, who: str, what: str) -> None:
        line = f"{self.now * 1000:13.3f} {who:<10} {what}"
        self._digest.update(line.encode())
        self.lines.append(line)

    def digest(self) -> str:
        """Of everything that was said so far."""
        return self._digest.hexdigest()

    # --- events

    def at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), call, arguments))

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + seconds, call, *arguments)

    def number(self) -> int:
        """The next of a row of numbers that is the same in every run of a seed."""
        return next(self._numbers)

    # --- running

    def step(self) -> None:
        events = self._events
        if events and events[0][0] <= self.now:
            _, _, call, arguments = heapq.heappop(events)
            call(*arguments)
            return
        busy = self.busy
        while busy:
            places = list(busy)
            chosen = places[0] if len(places) == 1 else self.random.choice(places)
            if chosen.has_work():
                chosen.iterate()
                self.rounds += 1
                self.now += ROUND_SECONDS
                if self.after_round is not None:
                    self.after_round(chosen)
                return
            busy.pop(chosen, None)
        if not events:
            raise StuckError("nothing is left that could happen")
        self.now = events[0][0]

    def run_until(self, is_done: Callable[[], bool], seconds: float, what: str) -> None:
        """Steps until something is so; StuckError if it takes longer than `seconds`."""
        end = self.now + seconds
        while not is_done():
            if self.now > end:
                raise StuckError(f"{what} within {seconds:g} s")
            self.step()

    def run_for(self, seconds: float) -> None:
        is_over = False

        def over() -> None:
            nonlocal is_over
            is_over = True

        self.after(seconds, over)
        while not is_over:
            self.step()
