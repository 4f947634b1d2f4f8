"""Deadlines as data: each has a key, at most one per key, and an event for when it is reached.

A deadline that is put off, as every heartbeat does, costs no more than a dictionary entry: the heap
keeps its old place, and moves it when that comes up.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Event = TypeVar("Event")


class Timers(Generic[Event]):
    """The deadlines of one machine. Times are milliseconds of a clock that never jumps; the owner
    asks for `next_deadline_ms` and comes back with `take_due`.
    """

    __slots__ = ("_heap", "_sequence", "_timers")

    def __init__(self) -> None:
        # By key: the deadline, the place in the heap that stands for it, and the event.
        self._timers: dict[Hashable, tuple[int, int, Event]] = {}
        # Deadline or an earlier time, number of the place, key.
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: object) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, deadline_ms: int, event: Event) -> None:
        """Sets the deadline of `key`, whatever it was before."""
        known = self._timers.get(key)
        if known is not None and known[0] <= deadline_ms:
            self._timers[key] = (deadline_ms, known[1], event)
            return
        self._sequence += 1
        self._timers[key] = (deadline_ms, self._sequence, event)
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))

    def cancel(self, key: Hashable) -> None:
        self._timers.pop(key, None)

    def clear(self) -> None:
        self._timers.clear()
        self._heap.clear()

    @property
    def next_deadline_ms(self) -> int | None:
        """When something may be due; it can turn out that nothing is."""
        heap = self._heap
        while heap:
            deadline_ms, place, key = heap[0]
            known = self._timers.get(key)
            if known is None or known[1] != place:
                heapq.heappop(heap)
            elif known[0] > deadline_ms:
                heapq.heapreplace(heap, (known[0], place, key))
            else:
                return deadline_ms
        return None

    def take_due(self, now_ms: int) -> Event | None:
        """The event of the earliest deadline that has passed, which is not a timer any more."""
        deadline_ms = self.next_deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._timers.pop(key)[2]
