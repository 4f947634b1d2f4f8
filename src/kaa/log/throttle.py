"""How long to rest so that work in the background stays within a number of bytes per second.

The rate holds over periods of a third of a second: long enough that single pieces of work do not
matter, and short enough that an hour of idleness does not allow a burst.
"""

from __future__ import annotations

from typing import Final

PERIOD_SECONDS: Final = 0.3


class Throttle:
    """Called after each piece of work how much was done in all."""

    __slots__ = ("_bytes", "_start_seconds")

    def __init__(self, now_seconds: float) -> None:
        self._start_seconds = now_seconds
        # The total at the start of the period.
        self._bytes = 0

    def rest_seconds(self, total_bytes: int, bytes_per_second: float, now_seconds: float) -> float:
        elapsed = now_seconds - self._start_seconds
        rest = max(0.0, (total_bytes - self._bytes) / bytes_per_second - elapsed)
        if elapsed + rest >= PERIOD_SECONDS:
            self._start_seconds = now_seconds + rest
            self._bytes = total_bytes
        return rest
