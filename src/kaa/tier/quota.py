"""How many bytes per second go to or come from the store, and how long to wait for more.

As Kafka measures: bytes are counted in samples of some seconds, of which the newest few are kept.
The rate is their sum over the time since the oldest one began, and at least over all samples but
one, so that the first second of a broker does not look like a flood. Nothing is cut: a segment that
is copied may exceed the quota, and what comes after it waits until the rate is below again.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class QuotaWindow(NamedTuple):
    """The samples that are kept, and how long each of them is."""

    samples: int = 11
    sample_ms: int = 1_000


class ByteRate:
    """The rate of one direction of traffic, measured and compared with its quota. Times are of a
    clock that never jumps.
    """

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        # Samples as when they began and what was counted.
        self._samples: deque[list[int]] = deque()

    def record(self, count: int, now_ms: int) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window.sample_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += count

    def wait_ms(self, bytes_per_second_max: int, now_ms: int) -> int:
        """How long until there is room again; 0 if there is."""
        self._forget(now_ms)
        total = sum(count for _, count in self._samples)
        span_ms = self._span_ms(now_ms)
        allowed = bytes_per_second_max * span_ms // 1000
        if total <= allowed:
            return 0
        return -((allowed - total) * 1000 // bytes_per_second_max)

    def _span_ms(self, now_ms: int) -> int:
        window = self._window
        elapsed = now_ms - self._samples[0][0] if self._samples else 0
        return max(elapsed, (window.samples - 1) * window.sample_ms, window.sample_ms)

    def _forget(self, now_ms: int) -> None:
        oldest = now_ms - self._window.samples * self._window.sample_ms
        while self._samples and self._samples[0][0] <= oldest:
            self._samples.popleft()
