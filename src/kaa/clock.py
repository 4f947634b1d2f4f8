"""The clocks of the machine, for nodes and clients that get no others handed in."""

from __future__ import annotations

import time


class SystemClock:
    """Time as the operating system tells it."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
