"""The committed image: what remains of the metadata log up to the high watermark.

Records of a metadata transaction count when its end is committed; until then they are held back,
and an abort drops them. A snapshot never ends inside a transaction, since one is not taken there.

A batch counts as a whole: a reader of the image never sees a part of a new topic. One with very
many records, or the end of a long transaction, is decoded and applied to a draft of the image in
pieces; then all of it is put in place. So it is with a snapshot.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kaa.controller.difference import difference
from kaa.controller.draft import Draft
from kaa.controller.framing import decode_record
from kaa.controller.image import ClusterImage
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
from kaa.wire.messages.metadata_topics import ClearElrRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.model.pieces import Pieces
    from kaa.quorum.replicated_state import CommittedBatch
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.wire.schema import MetadataRecord


_Registration = RegisterBrokerRecord | UnregisterBrokerRecord
_TRANSACTION_RECORDS: Final = frozenset(
    {BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord}
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
        self._transaction: deque[MetadataRecord] | None = None

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
        waiting = deque(records)
        # They are let go of in the pieces too: to free thousands takes milliseconds.
        del records
        due, transaction, draft = waiting, self._transaction, None
        if transaction is not None or not _TRANSACTION_RECORDS.isdisjoint(map(type, waiting)):
            due, transaction = yield from _due(waiting, transaction)
        brokers: list[_Registration] = []
        # One record of that kind changes as much as thousands of others.
        if len(due) > RECORDS_PER_PIECE or ClearElrRecord in map(type, due):
            draft = yield from Draft.begin(self.image)
            yield from _replay(due, draft, brokers)
            self.image.adopt(draft)
        else:
            for record in due:
                self.image.replay(record)
                if isinstance(record, _Registration):
                    brokers.append(record)
        for broker in brokers:
            if isinstance(broker, RegisterBrokerRecord):
                self.registration_offsets[broker.broker_id] = batch.last_offset
            else:
                self.registration_offsets.pop(broker.broker_id, None)
        # Between pieces a snapshot may be taken of what was there before, so this changes here too.
        self._transaction = transaction
        self.last_offset = batch.last_offset
        self.last_epoch = batch.epoch
        self.last_timestamp = batch.append_timestamp
        self.bytes_since_snapshot += batch.size_in_bytes
        if draft is not None:
            yield from draft.let_go()


def _due(
    records: deque[MetadataRecord], transaction: deque[MetadataRecord] | None
) -> Pieces[tuple[deque[MetadataRecord], deque[MetadataRecord] | None]]:
    """Which records count, those of a transaction that ends here among them, and what is held back
    of one that is open then.
    """
    due: deque[MetadataRecord] = deque()
    while records:
        record = records.popleft()
        if isinstance(record, BeginTransactionRecord):
            transaction = deque()
        elif isinstance(record, AbortTransactionRecord):
            transaction = None
        elif isinstance(record, EndTransactionRecord):
            due += transaction or ()
            transaction = None
        elif transaction is not None:
            transaction.append(record)
        else:
            due.append(record)
        if records and len(records) % RECORDS_PER_PIECE == 0:
            yield
    return due, transaction


def _replay(
    records: deque[MetadataRecord], draft: Draft, brokers: list[_Registration]
) -> Pieces[None]:
    """Applies the records, of which nothing is left; adds those about brokers that come or go."""
    while records:
        record = records.popleft()
        if isinstance(record, ClearElrRecord):
            yield from draft.clear_elr(record)
        else:
            draft.replay(record)
        if isinstance(record, _Registration):
            brokers.append(record)
        if records and len(records) % RECORDS_PER_PIECE == 0:
            yield
