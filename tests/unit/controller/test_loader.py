from __future__ import annotations

from kaa.controller.framing import encode_record
from kaa.controller.loader import MetadataLoader
from kaa.quorum import OffsetAndEpoch
from kaa.quorum.replicated_state import CommittedBatch
from kaa.quorum.snapshots import SnapshotContent
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from kaa.wire.messages.metadata_topics import TopicRecord
from kaa.wire.schema import MetadataRecord
from tests.unit.controller.cluster import uuid


def batch(offset: int, *records: MetadataRecord, epoch: int = 1) -> CommittedBatch:
    values = [encode_record(record, 0) for record in records]
    last_offset = offset + max(len(records), 1) - 1
    return CommittedBatch(offset, last_offset, epoch, offset * 10, 100, values)


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=uuid(number))


def test_batches_move_the_image_and_its_position() -> None:
    loader = MetadataLoader()
    assert loader.snapshot_id == OffsetAndEpoch(0, 0)
    loader.commit(batch(0))
    loader.commit(batch(1, topic(1), topic(2), epoch=3))
    assert sorted(loader.image.topics) == ["t1", "t2"]
    assert (loader.last_offset, loader.last_epoch, loader.last_timestamp) == (2, 3, 10)
    assert loader.snapshot_id == OffsetAndEpoch(3, 3)
    assert loader.bytes_since_snapshot == 200


def test_a_transaction_counts_when_it_ends() -> None:
    loader = MetadataLoader()
    loader.commit(batch(0, BeginTransactionRecord(), topic(1)))
    loader.commit(batch(2, topic(2)))
    is_open = [loader.is_in_transaction]
    assert loader.image.topics == {}
    loader.commit(batch(3, EndTransactionRecord(), topic(3)))
    assert [*is_open, loader.is_in_transaction] == [True, False]
    assert sorted(loader.image.topics) == ["t1", "t2", "t3"]


def test_an_aborted_transaction_leaves_nothing() -> None:
    loader = MetadataLoader()
    loader.commit(batch(0, BeginTransactionRecord(), topic(1), AbortTransactionRecord(), topic(2)))
    assert not loader.is_in_transaction
    assert sorted(loader.image.topics) == ["t2"]


def test_a_snapshot_replaces_everything() -> None:
    loader = MetadataLoader()
    loader.commit(batch(0, BeginTransactionRecord(), topic(1)))
    feature = FeatureLevelRecord(name="metadata.version", feature_level=30)
    values = [encode_record(record, 0) for record in (feature, topic(9))]
    loader.load(OffsetAndEpoch(50, 4), SnapshotContent(77, 0, None, values))
    assert sorted(loader.image.topics) == ["t9"]
    assert not loader.is_in_transaction
    assert (loader.last_offset, loader.last_epoch, loader.last_timestamp) == (49, 4, 77)
    assert loader.bytes_since_snapshot == 0
