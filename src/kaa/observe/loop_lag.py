"""How late the event loop is: what one slow step costs every other client.

A timer asks to be woken after `INTERVAL_SECONDS`; by how much it is woken too late is the lag. The
lags are counted in buckets, eight to each doubling of a microsecond, so that a percentile is at
most an eighth too high and a count never grows with time. The timers of a loop are exact to about a
millisecond, and so are the figures; its own clock may be coarser, and is not asked.

Nothing is measured until somebody asks: the first `ask` starts it, each later one says what was
seen since the one before.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

INTERVAL_SECONDS: Final = 0.01
PERCENTILES: Final = (50, 99, 99.9)
_STEPS: Final = 8
_STEP_BITS: Final = 3
# Up to 2^36 us, which is 19 hours.
_BUCKETS: Final = 37 * _STEPS


class LagCounts:
    """Lags, counted in buckets."""

    __slots__ = ("_buckets", "count", "microseconds_max")

    def __init__(self) -> None:
        self._buckets = [0] * _BUCKETS
        self.count = 0
        self.microseconds_max = 0

    def add(self, microseconds: int) -> None:
        self._buckets[min(_bucket(microseconds), _BUCKETS - 1)] += 1
        self.count += 1
        self.microseconds_max = max(self.microseconds_max, microseconds)

    def percentile(self, percent: float) -> int:
        """The upper end of the bucket that so many percent of the lags do not exceed."""
        rank = max(1, -int(-self.count * percent // 100))
        seen = 0
        for bucket, number in enumerate(self._buckets):
            seen += number
            if seen >= rank:
                return min(_upper_end(bucket), self.microseconds_max)
        return self.microseconds_max


def _bucket(microseconds: int) -> int:
    if microseconds < _STEPS:
        return microseconds
    shift = microseconds.bit_length() - 1 - _STEP_BITS
    return (shift << _STEP_BITS) + (microseconds >> shift)


def _upper_end(bucket: int) -> int:
    """The largest value of a bucket."""
    if bucket < 2 * _STEPS:
        return bucket
    shift = (bucket >> _STEP_BITS) - 1
    return (((bucket & (_STEPS - 1)) + _STEPS + 1) << shift) - 1


class LoopLag:
    """Measures one loop, which it runs on."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._report = report
        self._clock = clock
        self._counts: LagCounts | None = None
        self._due = 0.0

    def ask(self) -> None:
        counts, self._counts = self._counts, LagCounts()
        if counts is None:
            self._report("loop lag   is measured from now on")
            self._wait()
            return
        figures = [f"p{share:g} {counts.percentile(share) / 1e3:.3f}" for share in PERCENTILES]
        figures.append(f"max {counts.microseconds_max / 1e3:.3f}")
        self._report(f"loop lag   {' '.join(figures)} ms of {counts.count}")

    def _wait(self) -> None:
        self._due = self._clock() + INTERVAL_SECONDS
        self._loop.call_later(INTERVAL_SECONDS, self._tick)

    def _tick(self) -> None:
        assert self._counts is not None
        self._counts.add(max(0, int((self._clock() - self._due) * 1e6)))
        self._wait()
