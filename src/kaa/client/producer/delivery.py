"""Records on their way: what a sender waits for, and where its record went."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kaa.model.topics import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record went; offset -1 where the broker does not say it (acks=0, a duplicate)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Delivery:
    """A record on its way; awaiting it gives its `RecordMetadata` or raises."""

    __slots__ = ("_batch", "_index", "_partition", "_timestamp_ms")

    def __init__(
        self,
        partition: TopicPartition,
        batch: asyncio.Future[tuple[int, int]],
        index: int,
        timestamp_ms: int,
    ) -> None:
        self._partition = partition
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Whether the record was delivered or given up, so that `result` can be asked."""
        return self._batch.done()

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Calls back on the loop when the outcome is known."""
        self._batch.add_done_callback(lambda _: callback(self))

    def result(self) -> RecordMetadata:
        """The outcome, once it is done."""
        base_offset, append_time_ms = self._batch.result()
        offset = -1 if base_offset < 0 else base_offset + self._index
        timestamp_ms = self._timestamp_ms if append_time_ms < 0 else append_time_ms
        return RecordMetadata(*self._partition, offset, timestamp_ms)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.done():
            # The batch is shared: anyone who stops waiting must not cancel it for the others.
            yield from asyncio.shield(self._batch).__await__()
        return self.result()
