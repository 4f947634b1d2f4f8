"""Which partitions of a follower's session have something new.

A follower of thousands of partitions fetches several times per second, and most of them are quiet.
So its session watches them: a partition is due when it was appended to, when its high watermark or
its start moved, when its leadership changed, or when the follower names it. Only those are read.
Now and then all of them are, so that the leader goes on knowing that the follower is there.

A waiting fetch is woken by what it waits for, which is records and changes of leadership; the rest
goes with the next answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kaa.replication.partition import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.replication.partition import Partition
    from kaa.serving.fetch_sessions import PartitionKey


class _Watched(NamedTuple):
    partition: Partition
    # What the partition calls: one wakes the fetch that waits, the other does not.
    wake: Callable[[], None]
    note: Callable[[], None]


class SessionWatch:
    """The partitions of one fetch session that have news. Those who wait for it treat it as a
    partition: `wait`, then `forget`. `close` it with its session.
    """

    __slots__ = ("_due", "_waiters", "_watched", "all_due_at_ms")

    def __init__(self) -> None:
        # In the order in which they became so.
        self._due: dict[PartitionKey, None] = {}
        self._watched: dict[PartitionKey, _Watched] = {}
        self._waiters: dict[Callable[[], None], None] = {}
        # When all partitions are to be read again.
        self.all_due_at_ms = 0

    def watch(self, key: PartitionKey, partition: Partition) -> None:
        """To be called before each read: a topic that was made again has another partition."""
        known = self._watched.get(key)
        if known is not None:
            if known.partition is partition:
                return
            self.leave(key)
        watched = _Watched(partition, partial(self._wake, key), partial(self.note, key))
        self._watched[key] = watched
        partition.wait(watched.wake, Awaited.LOG_END)
        partition.wait(watched.note, Awaited.HIGH_WATERMARK)
        partition.wait(watched.note, Awaited.LOW_WATERMARK)

    def leave(self, key: PartitionKey) -> None:
        known = self._watched.pop(key, None)
        if known is not None:
            known.partition.forget(known.wake)
            known.partition.forget(known.note)

    def close(self) -> None:
        for key in tuple(self._watched):
            self.leave(key)

    # --- what is due

    def note(self, key: PartitionKey) -> None:
        self._due[key] = None

    def _wake(self, key: PartitionKey) -> None:
        self._due[key] = None
        for waiter in tuple(self._waiters):
            waiter()

    def take(
        self, positions: Iterable[PartitionKey], now_ms: int, every_ms: int
    ) -> list[PartitionKey]:
        """What is to be read now, of the session's partitions."""
        if now_ms >= self.all_due_at_ms:
            self.all_due_at_ms = now_ms + every_ms
            self._due.clear()
            return list(positions)
        return self.take_due()

    def take_due(self) -> list[PartitionKey]:
        due, self._due = list(self._due), {}
        return due

    # --- for those who wait

    def wait(self, waiter: Callable[[], None], awaited: Awaited) -> None:
        assert awaited is Awaited.LOG_END
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        self._waiters.pop(waiter, None)
