"""The committed image: what remains of the metadata log up to the high watermark.

Records of a metadata transaction count when its end is committed; until then they are held back,
and an abort drops them. A snapshot never ends inside a transaction, since one is not taken there.

A batch counts as a whole: a reader of the image never sees a part of a new topic. One with very
many records is decoded, and its partitions are made, in pieces; then all of it is put in place. So
it is with a snapshot.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kaa.controller.difference import difference
from kaa.controller.framing import decode_record
from kaa.controller.image import (
    ChangedPartitions,
    ClusterImage,
    NewPartitions,
    NewTopics,
    QuotaChange,
)
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kaa.wire.messages.metadata_settings import ClientQuotaRecord
from kaa.wire.messages.metadata_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.controller.image import PartitionImage, Prepared
    from kaa.model.pieces import Pieces
    from kaa.quorum.replicated_state import CommittedBatch
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.wire.schema import MetadataRecord

    _Change = MetadataRecord | Prepared


# After these the image is not what a later record of the batch is about.
_UNSETTLING: Final = (
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    ClearElrRecord,
    RemoveTopicRecord,
)


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
        # By broker the offset up to which all of its registration stands in the log.
        self.registration_offsets: dict[int, int] = {}
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
            if value is not None:
                image.replay(decode_record(value)[0])
            if value is None or number % RECORDS_PER_PIECE == 0:
                yield
        # What the replay noted is of no use, and to forget it takes its time.
        image.take_delta()
        if len(image.topics) > RECORDS_PER_PIECE:
            yield
        delta = yield from difference(self.image, image)
        if len(image.topics) > RECORDS_PER_PIECE:
            yield
        image.replace(self.image, delta)
        self.image = image
        self.last_offset = snapshot_id.offset - 1
        self.last_epoch = snapshot_id.epoch
        self.last_timestamp = content.last_contained_log_timestamp
        self.registration_offsets = dict.fromkeys(image.brokers, self.last_offset)
        self.bytes_since_snapshot = 0
        self._transaction = None

    def commit(
        self, batch: CommittedBatch, records: Sequence[MetadataRecord] | None = None
    ) -> Pieces[None]:
        """Applies what follows; its writer has the records and hands them in."""
        if records is None:
            records = yield from mapped(lambda value: decode_record(value)[0], batch.values)
        changes: Sequence[_Change]
        if len(records) <= RECORDS_PER_PIECE:
            changes = records
        else:
            waiting = deque(records)
            # They are let go of in the pieces too: to free thousands takes milliseconds.
            del records
            changes = yield from _prepared(waiting, None if self.is_in_transaction else self.image)
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
                if isinstance(change, RegisterBrokerRecord):
                    self.registration_offsets[change.broker_id] = batch.last_offset
                elif isinstance(change, UnregisterBrokerRecord):
                    self.registration_offsets.pop(change.broker_id, None)
        self.last_offset = batch.last_offset
        self.last_epoch = batch.epoch
        self.last_timestamp = batch.append_timestamp
        self.bytes_since_snapshot += batch.size_in_bytes
        for change in changes:
            if isinstance(change, ChangedPartitions):
                yield from _let_go(change.replaced)


def _let_go(things: list[PartitionImage]) -> Pieces[None]:
    """Frees what nobody needs any more."""
    while things:
        yield
        del things[-RECORDS_PER_PIECE:]


class _Preparation:
    """Makes of the records of a batch what can be put into the image in one go."""

    def __init__(self, image: ClusterImage | None) -> None:
        self.changes: list[_Change] = []
        # One of each, put where its first record stood; None once that would not be the same.
        self._topics: NewTopics | None = NewTopics()
        self._changed = None if image is None else ChangedPartitions(image)
        # The last one.
        self._partitions: NewPartitions | None = None

    def take(self, record: MetadataRecord) -> None:
        topics, changed = self._topics, self._changed
        if topics is not None and topics.take(record):
            return
        if isinstance(record, PartitionRecord):
            self._add_partition(record)
        elif isinstance(record, TopicRecord) and topics is not None:
            if not topics.by_id:
                self.changes.append(topics)
            topics.add(record)
        elif isinstance(record, PartitionChangeRecord) and changed is not None:
            if not changed.images:
                self.changes.append(changed)
            if not changed.add(record):
                self.changes.append(record)
                self._changed = None
        else:
            self._add_other(record)

    def _add_partition(self, record: PartitionRecord) -> None:
        if self._partitions is None or self._partitions.topic_id != record.topic_id:
            self._partitions = NewPartitions(record.topic_id)
            self.changes.append(self._partitions)
        self._partitions.add(record)

    def _add_other(self, record: MetadataRecord) -> None:
        self._partitions = None
        if isinstance(record, _UNSETTLING):
            self._topics = self._changed = None
        self.changes.append(
            QuotaChange.of(record) if isinstance(record, ClientQuotaRecord) else record
        )


def _prepared(records: deque[MetadataRecord], image: ClusterImage | None) -> Pieces[list[_Change]]:
    """The same with new topics and their partitions in one, all partitions that change in one, and
    quotas with those who have them; nothing is left in the queue. Without an image changes of its
    partitions stay as they are.
    """
    preparation = _Preparation(image)
    while records:
        preparation.take(records.popleft())
        if len(records) % RECORDS_PER_PIECE == 0:
            yield
    return preparation.changes
