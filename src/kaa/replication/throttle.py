"""Throttles of replication (KIP-73): replicas that catch up leave room for clients.

Each broker has one rate for what its leaders send to followers and one for what its followers
fetch, and each topic says which of its replicas these are about, as `PARTITION:BROKER` or `*` for
all. A replica that is in sync is never held back: it would leave the set.

The rate is that of Kafka: the bytes of the last `replication.quota.window.num` windows over the
time that they cover, of which at least all but one are counted even if they have not passed yet. So
a start is not taken for a burst, and a burst is forgotten when its window is.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALL: Final = "*"
WINDOWS_DEFAULT: Final = 11
WINDOW_MS_DEFAULT: Final = 1_000

# Partitions of a topic, or None for all of them.
ThrottledPartitions = frozenset[int] | None


def throttled_partitions(entries: Iterable[str], node_id: int) -> ThrottledPartitions:
    """The partitions of a topic whose replica on this broker is named."""
    found: set[int] = set()
    for entry in entries:
        if entry == ALL:
            return None
        number, _, broker_id = entry.partition(":")
        if int(broker_id) == node_id:
            found.add(int(number))
    return frozenset(found)


class ReplicationThrottle:
    """One direction of a broker."""

    def __init__(
        self,
        monotonic_ms: Callable[[], int],
        rate: Callable[[], int | None] = lambda: None,
        windows: int = WINDOWS_DEFAULT,
        window_ms: int = WINDOW_MS_DEFAULT,
    ) -> None:
        """`rate` is in bytes per second, None without a limit."""
        self._monotonic_ms = monotonic_ms
        self._rate = rate
        self._windows = windows
        self._window_ms = window_ms
        # Where each window begins, and its bytes; the newest is the last.
        self._samples: deque[tuple[int, int]] = deque()

    def record(self, size: int) -> None:
        now = self._monotonic_ms()
        self._forget(now)
        if self._samples and now - self._samples[-1][0] < self._window_ms:
            began, counted = self._samples.pop()
            self._samples.append((began, counted + size))
        else:
            self._samples.append((now, size))

    def is_exceeded(self) -> bool:
        limit = self._rate()
        if limit is None:
            return False
        now = self._monotonic_ms()
        self._forget(now)
        if not self._samples:
            return False
        covered_ms = now - self._samples[0][0]
        lacking = self._windows - 1 - covered_ms // self._window_ms
        covered_ms += max(0, lacking) * self._window_ms
        total = sum(size for _, size in self._samples)
        return total * 1000 > limit * max(covered_ms, 1)

    def _forget(self, now: int) -> None:
        oldest = now - self._windows * self._window_ms
        while self._samples and self._samples[0][0] <= oldest:
            self._samples.popleft()
