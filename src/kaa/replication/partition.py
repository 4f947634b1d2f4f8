"""One partition on this broker: its log, who leads it, and how far readers may see.

The high watermark is the least log end offset over the in-sync replicas, this broker's own among
them. It is computed so with one replica too: nothing takes the end of the log for the high
watermark. With group commit the broker's own offset counts only up to what is on stable storage.

Whoever waits for a partition (an answer to acks=all, a long poll) is told of progress by a
callback, and looks for itself whether it was waited for. There is no polling and no queue of
conditions.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.log.errors import LogError, StorageError
from kaa.log.producer_state import AppendOrigin
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.image import PartitionImage
    from kaa.log.append import AppendInfo
    from kaa.log.log import FetchIsolation, ReadResult, UnifiedLog
    from kaa.log.pending import PendingAppend
    from kaa.log.producer_state import VerificationGuard
    from kaa.wire.primitives import Uuid

NO_EPOCH: Final = -1


async def _settled(pending: PendingAppend) -> None:
    """Waits until a write on another thread counts, or has failed."""
    done = asyncio.get_running_loop().create_future()
    pending.when_settled(lambda: None if done.done() else done.set_result(None))
    await done


class EpochEnd(NamedTuple):
    """The last offset of a leader epoch, exclusive; both -1 if unknown."""

    epoch: int
    end_offset: int


class Partition:
    """See the module's text. The manager makes it and tells it about metadata."""

    __slots__ = (
        "_replica_ends",
        "_waiters",
        "appended",
        "image",
        "is_leader",
        "leader_epoch_start_offset",
        "log",
        "node_id",
        "number",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, topic_id: Uuid, number: int, node_id: int, image: PartitionImage
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.node_id = node_id
        self.image = image
        # None while the directory of its log is offline.
        self.log: UnifiedLog | None = None
        self.is_leader = False
        self.leader_epoch_start_offset = -1
        # With group commit: who is told of appends, and the broker's own end counts for the high
        # watermark only as far as it was flushed.
        self.appended: Callable[[Partition], None] | None = None
        # The log end offsets of the other replicas, as their fetches tell.
        self._replica_ends: dict[int, int] = {}
        self._waiters: set[Callable[[], None]] = set()

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    # --- metadata

    def update(self, image: PartitionImage) -> None:
        """Takes over what the metadata says now; leadership starts and ends here."""
        was_leader, before = self.is_leader, self.image
        self.image = image
        self.is_leader = image.leader == self.node_id and self.log is not None
        if self.is_leader and (not was_leader or image.leader_epoch > before.leader_epoch):
            self.leader_log().settle()
            self._lead()
        elif was_leader and not self.is_leader:
            self.progress()
        if self.is_leader:
            self.advance_high_watermark()

    def _lead(self) -> None:
        log = self.leader_log()
        self.leader_epoch_start_offset = log.log_end_offset
        log.leader_epochs.assign(self.image.leader_epoch, log.log_end_offset)
        self._replica_ends = dict.fromkeys(self.image.replicas, log.log_start_offset)
        self._replica_ends.pop(self.node_id, None)

    def leader_log(self) -> UnifiedLog:
        if self.log is None:
            raise StorageError(f"the directory of {self.topic}-{self.number} is offline")
        return self.log

    def check_leader_epoch(self, current_leader_epoch: int) -> Errors:
        """Compares the epoch that a client believes in, -1 for none, with ours."""
        if current_leader_epoch in {NO_EPOCH, self.leader_epoch}:
            return Errors.NONE
        if current_leader_epoch < self.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH

    # --- appends

    def append(
        self,
        records: memoryview | bytearray,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends validated batches as the leader; LogError refuses them."""
        info = self.leader_log().append(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            guard=guard,
            transaction_version=transaction_version,
        )
        self._note_append()
        return info

    async def append_later(
        self,
        records: memoryview | bytearray,
        *,
        now_ms: int,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """The same, written by the thread of the log's directory; `records` belong to it until it
        returns.
        """
        log = self.leader_log()
        while log.pending is not None:
            await _settled(log.pending)
            log = self.leader_log()
        if not self.is_leader:
            raise LogError(Errors.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{self.number}")
        plan = log.prepare_append(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            guard=guard,
            transaction_version=transaction_version,
        )
        if plan.segment is not None:
            pending = log.begin_append(plan, now_ms)
            pending.when_settled(self._note_append)
            loop = asyncio.get_running_loop()
            pending.when_written(lambda: loop.call_soon_threadsafe(pending.settle))
            await _settled(pending)
            if pending.error is not None:
                raise pending.error
        return plan.info

    def _note_append(self) -> None:
        if self.appended is None:
            self.advance_high_watermark()
        else:
            self.appended(self)

    def has_enough_replicas(self, min_insync_replicas: int) -> bool:
        return len(self.image.isr) >= min(min_insync_replicas, len(self.image.replicas))

    def is_replicated(self, offset: int) -> bool:
        """True if every record below `offset` can be read."""
        return self.log is not None and self.log.high_watermark >= offset

    # --- high watermark

    def replica_fetched(self, replica_id: int, end_offset: int) -> None:
        """A follower asks from `end_offset` on, so that it has all before it."""
        if self._replica_ends.get(replica_id, -1) < end_offset:
            self._replica_ends[replica_id] = end_offset
            self.advance_high_watermark()

    def advance_high_watermark(self) -> None:
        """Moves the high watermark to what all in-sync replicas have, and tells those who wait."""
        log = self.log
        if log is None or not self.is_leader:
            return
        own = log.log_end_offset if self.appended is None else log.recovery_point
        ends = self._replica_ends
        for replica in self.image.isr:
            if replica != self.node_id:
                own = min(own, ends.get(replica, log.log_start_offset))
        if own > log.high_watermark:
            log.update_high_watermark(own)
            self.progress()

    def wait(self, waiter: Callable[[], None]) -> None:
        """Calls `waiter` at every progress, until `forget`."""
        self._waiters.add(waiter)

    def forget(self, waiter: Callable[[], None]) -> None:
        self._waiters.discard(waiter)

    def progress(self) -> None:
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter()

    # --- reads

    def read(
        self, offset: int, bytes_max: int, isolation: FetchIsolation, *, min_one: bool
    ) -> ReadResult:
        return self.leader_log().read(
            offset, bytes_max=bytes_max, isolation=isolation, min_one_batch=min_one
        )

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """Where `leader_epoch`, or the latest one before it, ended in this log."""
        log = self.leader_log()
        if leader_epoch == NO_EPOCH:
            return EpochEnd(NO_EPOCH, -1)
        epoch, end_offset = log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)
        return EpochEnd(epoch, end_offset)
