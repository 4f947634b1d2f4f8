"""The time of a broker in a test: the machine's, moved ahead on demand.

Everything that a node does later is a timer of its loop: retention, session timeouts, expiry of
offsets, heartbeats, delayed answers. So time is moved in one place, the loop asks this clock what
time it is, and whatever is due when the clock was moved is done in the order in which it was due,
at once. Both clocks, the one that tells the date and the one that never jumps, move together.

The machine is asked through `clock_gettime`, which the tools that freeze the time of a test leave
alone, so that a test that stops its own time does not stop the broker.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Final

from kaa import limits
from kaa.testing.cuts import CutLoop

_NO_TIME: Final = timedelta()
_FIRST_STEP_NS: Final = 2_000_000_000
# Turns of the loop in which a timer fires and the task that waited for it goes on.
_TURNS: Final = 5


def machine_ns() -> int:
    """The machine's clock that never jumps, whatever a test has done to its own time."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Clock:
    """The time of a broker under test: that of the machine until `advance` moves it ahead.

    Retention, session timeouts and all else that the broker waits for come due at once.
    """

    __slots__ = ("_loop", "_shift_ns")

    def __init__(self) -> None:
        # Moved on the loop, or while there is none.
        self._shift_ns = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def advance(
        self,
        span: timedelta = _NO_TIME,
        /,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Moves the time of the broker ahead; what became due is done soon after this returns."""
        if not isinstance(span, timedelta):
            raise TypeError(f"advance({span!r}) has no unit; write advance(seconds={span!r})")
        span += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if not _NO_TIME <= span <= timedelta(days=limits.TESTING_ADVANCE_DAYS_MAX):
            most = limits.TESTING_ADVANCE_DAYS_MAX
            raise ValueError(f"time moves ahead, and at most {most} days at once, not by {span}")
        self.shift(span // timedelta(microseconds=1) * 1000)

    def shift(self, shift_ns: int) -> None:
        """Moves the time ahead, from any thread but that of the loop."""
        if self._loop is None:
            self._shift_ns += shift_ns
            return
        moved = asyncio.run_coroutine_threadsafe(self._move(shift_ns), self._loop)
        moved.result(limits.TESTING_ANSWER_SECONDS_MAX)

    async def _move(self, shift_ns: int) -> None:
        # The upkeep of logs counts its intervals from its first turn, a second after the start.
        # A first small step has that turn taken, so that the rest counts.
        step_ns = min(shift_ns, _FIRST_STEP_NS)
        self._shift_ns += step_ns
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._shift_ns += shift_ns - step_ns

    @property
    def shift_ns(self) -> int:
        """How far this time is ahead of the machine's."""
        return self._shift_ns

    @property
    def is_ahead(self) -> bool:
        """Whether it was moved, so that it shows another time than the machine's."""
        return self._shift_ns > 0

    def wall_ms(self) -> int:
        """The time of the broker in milliseconds since 1970, as records are stamped with it."""
        return (time.clock_gettime_ns(time.CLOCK_REALTIME) + self._shift_ns) // 1_000_000

    def monotonic_ms(self) -> int:
        """The time that waiting goes by, in milliseconds; it never jumps back."""
        return (machine_ns() + self._shift_ns) // 1_000_000

    def monotonic(self) -> float:
        """The same in seconds."""
        return (machine_ns() + self._shift_ns) / 1e9

    # --- for the node

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """A loop that lives by this clock."""
        self._loop = ClockLoop(self)
        return self._loop

    def leave_loop(self) -> None:
        """The loop is closed."""
        self._loop = None

    def reset(self) -> None:
        """Back to the time of the machine. No node may be running: timers would wait too long."""
        assert self._loop is None, "time does not go back under a running node"
        self._shift_ns = 0


class ClockLoop(CutLoop):
    """The loop of asyncio, with the time of a clock."""

    def __init__(self, clock: Clock) -> None:
        self._test_clock = clock
        super().__init__()

    def time(self) -> float:
        return self._test_clock.monotonic()
