"""What the share coordinator remembers of one share partition, and the records of it.

A *snapshot* record has the whole state; an *update* record has what changed since, and names the
snapshot by its epoch. After a number of updates the next write is a snapshot again, so that the log
before the oldest snapshot that counts can be deleted. A tombstone of the snapshot's key ends it.

| Field | Meaning |
|---|---|
| snapshot epoch | counts snapshots; an update has that of its snapshot |
| state epoch | that of the last initialisation by the group coordinator; lower ones are fenced |
| leader epoch | that of the share-partition leader; lower ones are fenced |
| start offset | what lies before it is done with; -1 until the leader has chosen it |
| delivery complete count | records at or after the start that are done with; -1 is unknown |
| batches | what is known of offsets from the start on |

There may be thousands of batches, so that what has to do with each of them is done in pieces.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType, RecordTypes
from kaa.coordinators.share.batches import StateBatch, combine
from kaa.limits import SHARE_BATCHES_PER_PIECE
from kaa.model.pieces import mapped
from kaa.wire.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kaa.wire.messages.share_state import StateBatch as StoredBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

Batch = TypeVar("Batch")

RECORD_TYPES: Final = RecordTypes(
    [
        RecordType(ShareSnapshotKey, ShareSnapshotValue),
        RecordType(ShareUpdateKey, ShareUpdateValue),
    ]
)
UNKNOWN_START_OFFSET: Final = -1
UNKNOWN_COUNT: Final = -1


class SharePartitionKey(NamedTuple):
    """A partition as one share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """The key by which its coordinator is found."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class ShareState(NamedTuple):
    """The state of a share partition; never changed in place."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    # The highest epochs seen, which fence: a snapshot may have lower ones.
    leader_epoch_max: int = 0
    state_epoch_max: int = 0
    # Updates since the last snapshot that was written because of their number.
    updates: int = 0
    # Where the log has the last snapshot; None if only updates were found.
    snapshot_offset: int | None = None

    def snapshot(self, key: SharePartitionKey) -> Pieces[NewRecord]:
        value = ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.create_timestamp_ms,
            write_timestamp=self.write_timestamp_ms,
            state_batches=(yield from stored(self.batches)),
        )
        return NewRecord(_snapshot_key(key), value)

    def replay_snapshot(
        self, value: ShareSnapshotValue, offset: int, updates_max: int
    ) -> Pieces[ShareState]:
        """The state after a snapshot of it at an offset of the log."""
        return (yield from new_state(value, offset))._replace(
            leader_epoch_max=max(self.leader_epoch_max, value.leader_epoch),
            state_epoch_max=max(self.state_epoch_max, value.state_epoch),
            updates=0 if self.updates >= updates_max else self.updates,
        )

    def replay_update(self, value: ShareUpdateValue) -> Pieces[ShareState]:
        # One that came late and was written by Kafka has an earlier start: that is not taken back.
        start = max(self.start_offset, value.start_offset)
        is_late = UNKNOWN_START_OFFSET < value.start_offset < start
        count = self.delivery_complete_count if is_late else value.delivery_complete_count
        leader_epoch = self.leader_epoch if value.leader_epoch == -1 else value.leader_epoch
        reported = yield from batches_of(value.state_batches)
        return self._replace(
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=count,
            batches=(yield from combine(self.batches, reported, start)),
            leader_epoch_max=max(self.leader_epoch_max, value.leader_epoch),
            updates=self.updates + 1,
        )


# What is said of a share partition that has no state.
UNINITIALISED: Final = ShareState(0, 0, 0, UNKNOWN_START_OFFSET, UNKNOWN_COUNT, ())


def new_state(value: ShareSnapshotValue, offset: int) -> Pieces[ShareState]:
    """The state of a share partition that begins with a snapshot."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple((yield from batches_of(value.state_batches))),
        create_timestamp_ms=value.create_timestamp,
        write_timestamp_ms=value.write_timestamp,
        leader_epoch_max=value.leader_epoch,
        state_epoch_max=value.state_epoch,
        snapshot_offset=offset,
    )


def state_of_update(value: ShareUpdateValue) -> Pieces[ShareState]:
    """The state where the log has an update without its snapshot."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=0,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple((yield from batches_of(value.state_batches))),
        leader_epoch_max=value.leader_epoch,
        state_epoch_max=-1,
        updates=1,
    )


def update_record(
    key: SharePartitionKey,
    *,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: tuple[StateBatch, ...],
) -> Pieces[NewRecord]:
    return NewRecord(
        ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareUpdateValue(
            snapshot_epoch=snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=(yield from stored(batches)),
        ),
    )


def state_tombstone(key: SharePartitionKey) -> NewRecord:
    return NewRecord(_snapshot_key(key), None)


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def stored(batches: Iterable[StateBatch]) -> Pieces[list[StoredBatch]]:
    return mapped(partial(batch_as, StoredBatch), batches, SHARE_BATCHES_PER_PIECE)


def batch_as(kind: Callable[..., Batch], batch: AnyBatch) -> Batch:
    """A batch as that of a record, a request or a response: each message has a class of its own."""
    return kind(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )


class AnyBatch(Protocol):
    """A batch of a record, a request or a response, or one of the state itself."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def delivery_state(self) -> int: ...

    @property
    def delivery_count(self) -> int: ...


def batches_of(batches: Iterable[AnyBatch]) -> Pieces[list[StateBatch]]:
    return mapped(_batch_of, batches, SHARE_BATCHES_PER_PIECE)


def _batch_of(batch: AnyBatch) -> StateBatch:
    return StateBatch(
        batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state
    )
