"""The committed image: what remains of the metadata log up to the high watermark.

Records of a metadata transaction count when its end is committed; until then they are held back,
and an abort drops them. A snapshot never ends inside a transaction, since one is not taken there.

A batch counts as a whole: a reader of the image never sees a part of a new topic. One with very
many records is decoded, and its partitions are made, in pieces; then all of it is put in place. So
it is with a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.difference import difference
from kaa.controller.framing import decode_record
from kaa.controller.image import ClusterImage, NewPartitions
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kaa.wire.messages.metadata_topics import PartitionRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.model.pieces import Pieces
    from kaa.quorum.replicated_state import CommittedBatch
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.wire.schema import MetadataRecord

    _Change = MetadataRecord | NewPartitions


class MetadataLoader:
    """Keeps the committed image. Apply snapshots and committed batches in the order of the log."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        # The last offset in the image with its epoch and time; -1 for nothing.
        self.last_offset = -1
        self.last_epoch = 0
        self.last_timestamp = 0
        # What a new snapshot would save replaying.
        self.bytes_since_snapshot = 0
        # Records of the open transaction; None outside of one.
        self._transaction: list[_Change] | None = None

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The id of a snapshot of the image as it is now."""
        return OffsetAndEpoch(self.last_offset + 1, self.last_epoch)

    def load(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> Pieces[None]:
        """Replaces the image by that of a snapshot; its delta is the difference between the two."""
        image = ClusterImage()
        for number, value in enumerate(content.values, 1):
            image.replay(decode_record(value)[0])
            if number % RECORDS_PER_PIECE == 0:
                yield
        delta = yield from difference(self.image, image)
        image.replace(self.image, delta)
        self.image = image
        self.last_offset = snapshot_id.offset - 1
        self.last_epoch = snapshot_id.epoch
        self.last_timestamp = content.last_contained_log_timestamp
        self.bytes_since_snapshot = 0
        self._transaction = None

    def commit(
        self, batch: CommittedBatch, records: Sequence[MetadataRecord] | None = None
    ) -> Pieces[None]:
        """Applies what follows; its writer has the records and hands them in."""
        if records is None:
            records = yield from mapped(lambda value: decode_record(value)[0], batch.values)
        changes: Sequence[_Change] = records
        if len(records) > RECORDS_PER_PIECE:
            changes = yield from _prepared(records)
        for change in changes:
            if isinstance(change, BeginTransactionRecord):
                self._transaction = []
            elif isinstance(change, AbortTransactionRecord):
                self._transaction = None
            elif isinstance(change, EndTransactionRecord):
                for held in self._transaction or ():
                    self.image.replay(held)
                self._transaction = None
            elif self._transaction is not None:
                self._transaction.append(change)
            else:
                self.image.replay(change)
        self.last_offset = batch.last_offset
        self.last_epoch = batch.epoch
        self.last_timestamp = batch.append_timestamp
        self.bytes_since_snapshot += batch.size_in_bytes


def _prepared(records: Sequence[MetadataRecord]) -> Pieces[list[_Change]]:
    """The same with the new partitions of a topic in one."""
    changes: list[_Change] = []
    new: NewPartitions | None = None
    for number, record in enumerate(records, 1):
        if not isinstance(record, PartitionRecord):
            new = None
            changes.append(record)
        else:
            if new is None or new.topic_id != record.topic_id:
                new = NewPartitions(record.topic_id)
                changes.append(new)
            new.add(record)
        if number % RECORDS_PER_PIECE == 0:
            yield
    return changes
