"""A bound on the time of a run, which is never crossed by beginning something too long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeBox:
    """Knows how long is left, and remembers what it refused."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self.seconds = seconds
        # What was left out or ended early, and why; in the order of the run.
        self.cuts: dict[str, str] = {}

    @property
    def left_seconds(self) -> float:
        return max(0.0, self._end - self._clock())

    def admits(self, name: str, seconds: float) -> bool:
        """Whether something that takes so long may begin; a refusal is remembered."""
        if seconds <= self.left_seconds:
            return True
        self.cut(name, f"needs about {seconds:.0f} s, {self.left_seconds:.0f} s were left")
        return False

    def cut(self, name: str, why: str) -> None:
        self.cuts[name] = why
