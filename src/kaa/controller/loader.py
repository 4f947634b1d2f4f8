"""The committed image: what remains of the metadata log up to the high watermark.

Records of a metadata transaction count when its end is committed; until then they are held back,
and an abort drops them. A snapshot never ends inside a transaction, since one is not taken there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.framing import decode_record
from kaa.controller.image import ClusterImage
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.quorum.replicated_state import CommittedBatch
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.wire.schema import MetadataRecord


class MetadataLoader:
    """Applies snapshots and committed batches; see the module."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        # The last offset in the image with its epoch and time; -1 for nothing.
        self.last_offset = -1
        self.last_epoch = 0
        self.last_timestamp = 0
        # What a new snapshot would save replaying.
        self.bytes_since_snapshot = 0
        # Records of the open transaction; None outside of one.
        self._transaction: list[MetadataRecord] | None = None

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The id of a snapshot of the image as it is now."""
        return OffsetAndEpoch(self.last_offset + 1, self.last_epoch)

    def load(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> None:
        """Replaces the image by that of a snapshot."""
        image = ClusterImage()
        for value in content.values:
            image.replay(decode_record(value)[0])
        self.image = image
        self.last_offset = snapshot_id.offset - 1
        self.last_epoch = snapshot_id.epoch
        self.last_timestamp = content.last_contained_log_timestamp
        self.bytes_since_snapshot = 0
        self._transaction = None

    def commit(
        self, batch: CommittedBatch, records: Iterable[MetadataRecord] | None = None
    ) -> None:
        """Applies what follows; its writer has the records and hands them in."""
        if records is None:
            records = (decode_record(value)[0] for value in batch.values)
        for record in records:
            self._take(record)
        self.last_offset = batch.last_offset
        self.last_epoch = batch.epoch
        self.last_timestamp = batch.append_timestamp
        self.bytes_since_snapshot += batch.size_in_bytes

    def _take(self, record: MetadataRecord) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            for held in self._transaction or ():
                self.image.replay(held)
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self.image.replay(record)
