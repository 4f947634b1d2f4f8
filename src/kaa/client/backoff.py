"""How long to wait before trying again: twice as long after each failure, with some chance.

The pause is `first * 2 ** failures`, at most `longest`, times a number between 0.8 and 1.2, so
that many clients that failed together do not come back together. These are Kafka's numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaa.model.seams import RandomSource

_JITTER = 0.2
_DOUBLINGS_MAX = 30


class Backoff:
    """Counts failures of one thing; `reset` on success."""

    __slots__ = ("_first_ms", "_longest_ms", "_random", "failures")

    def __init__(self, first_ms: int, longest_ms: int, random: RandomSource) -> None:
        self._first_ms = first_ms
        self._longest_ms = max(first_ms, longest_ms)
        self._random = random
        self.failures = 0

    def next_ms(self) -> float:
        """Notes a failure and gives the pause after it."""
        pause_ms = min(self._first_ms << min(self.failures, _DOUBLINGS_MAX), self._longest_ms)
        self.failures += 1
        return pause_ms * (1 - _JITTER + 2 * _JITTER * self._random.random())

    def reset(self) -> None:
        """The next pause is the shortest again, after a success."""
        self.failures = 0
