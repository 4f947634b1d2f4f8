from __future__ import annotations

from kaa.controller.framing import encode_record
from kaa.controller.loader import MetadataLoader
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import finish
from kaa.quorum import OffsetAndEpoch
from kaa.quorum.replicated_state import CommittedBatch
from kaa.quorum.snapshots import SnapshotContent
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from kaa.wire.messages.metadata_topics import PartitionRecord, TopicRecord
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
    finish(loader.commit(batch(0)))
    finish(loader.commit(batch(1, topic(1), topic(2), epoch=3)))
    assert sorted(loader.image.topics) == ["t1", "t2"]
    assert (loader.last_offset, loader.last_epoch, loader.last_timestamp) == (2, 3, 10)
    assert loader.snapshot_id == OffsetAndEpoch(3, 3)
    assert loader.bytes_since_snapshot == 200


def test_a_large_batch_is_taken_in_pieces_and_counts_as_a_whole() -> None:
    count = 3 * RECORDS_PER_PIECE
    records: list[MetadataRecord] = []
    for number in (1, 2):
        records.append(topic(number))
        records += [
            PartitionRecord(partition_id=index, topic_id=uuid(number), replicas=[1], isr=[1])
            for index in range(count)
        ]
    at_once = MetadataLoader()
    for record in records:
        at_once.image.replay(record)
    loader = MetadataLoader()
    pieces = loader.commit(batch(0, *records))
    turns = 0
    for _ in pieces:
        turns += 1
        assert not loader.image.topics
    assert turns >= 2 * (2 * count // RECORDS_PER_PIECE)
    for name in ("t1", "t2"):
        assert loader.image.topics[name].partitions == at_once.image.topics[name].partitions
    assert loader.last_offset == len(records) - 1
    assert loader.image.take_delta().partitions == at_once.image.take_delta().partitions


def test_a_transaction_counts_when_it_ends() -> None:
    loader = MetadataLoader()
    finish(loader.commit(batch(0, BeginTransactionRecord(), topic(1))))
    finish(loader.commit(batch(2, topic(2))))
    is_open = [loader.is_in_transaction]
    assert loader.image.topics == {}
    finish(loader.commit(batch(3, EndTransactionRecord(), topic(3))))
    assert [*is_open, loader.is_in_transaction] == [True, False]
    assert sorted(loader.image.topics) == ["t1", "t2", "t3"]


def test_an_aborted_transaction_leaves_nothing() -> None:
    loader = MetadataLoader()
    finish(
        loader.commit(
            batch(0, BeginTransactionRecord(), topic(1), AbortTransactionRecord(), topic(2))
        )
    )
    assert not loader.is_in_transaction
    assert sorted(loader.image.topics) == ["t2"]


def test_a_snapshot_replaces_everything() -> None:
    loader = MetadataLoader()
    finish(loader.commit(batch(0, BeginTransactionRecord(), topic(1))))
    feature = FeatureLevelRecord(name="metadata.version", feature_level=30)
    values = [encode_record(record, 0) for record in (feature, topic(9))]
    finish(loader.load(OffsetAndEpoch(50, 4), SnapshotContent(77, 0, None, values)))
    assert sorted(loader.image.topics) == ["t9"]
    assert not loader.is_in_transaction
    assert (loader.last_offset, loader.last_epoch, loader.last_timestamp) == (49, 4, 77)
    assert loader.bytes_since_snapshot == 0
