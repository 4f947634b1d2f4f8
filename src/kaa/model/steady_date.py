"""A date by which things expire that are days old: it never runs ahead of the time that passes.

What expires by a date that Kafka stores (an offset's commit, a producer's last batch) is judged by
the date of the moment, since that is all that a broker has after a restart. While a node runs it
has another clock, which never jumps. If somebody sets the date ahead, everything would expire at
once that was to be kept for days. So a date that was set ahead is believed only when what is dated
before has had its time: until then this one goes on at the pace of the other clock. A date that is
set back is believed at once: things live longer by no more than the step.
"""

from __future__ import annotations

from typing import Final

# Less is a clock that is being slowed or quickened, or a pause between two looks at the clocks.
STEP_MS_MIN: Final = 1_000


class SteadyDate:
    """The date by which old things expire. Has to be asked as often as something may expire: a jump
    is measured from one question to the next.
    """

    __slots__ = ("_ahead_since_ms", "_date_ms", "_monotonic_ms")

    def __init__(self) -> None:
        self._date_ms: int | None = None
        self._monotonic_ms = 0
        # When the date was seen to be ahead of the time that had passed.
        self._ahead_since_ms: int | None = None

    def at(self, wall_ms: int, monotonic_ms: int, expiry_ms: int) -> int:
        """The date to judge by, for things that expire after so long."""
        last_ms, passed_ms = self._date_ms, monotonic_ms - self._monotonic_ms
        if last_ms is None or wall_ms < last_ms + passed_ms + STEP_MS_MIN:
            self._ahead_since_ms = None
        elif self._ahead_since_ms is None:
            self._ahead_since_ms = monotonic_ms
        elif monotonic_ms - self._ahead_since_ms >= expiry_ms:
            self._ahead_since_ms = None
        if last_ms is None or self._ahead_since_ms is None:
            self._date_ms = wall_ms
        else:
            self._date_ms = last_ms + passed_ms
        self._monotonic_ms = monotonic_ms
        return self._date_ms
