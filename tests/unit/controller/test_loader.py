from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller import image
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
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kaa.wire.messages.metadata_settings import ClientQuotaRecord, EntityData
from kaa.wire.messages.metadata_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kaa.wire.schema import MetadataRecord
from tests.unit.controller.cluster import uuid
from tests.unit.controller.replica_node import image_of

if TYPE_CHECKING:
    import pytest


_NEVER_CHANGED = (
    BeginTransactionRecord,
    ClearElrRecord,
    EndTransactionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


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


def test_many_changes_of_one_batch_come_to_the_same_as_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever stands between them, and whether it is in a transaction or not."""
    monkeypatch.setattr("kaa.controller.loader.RECORDS_PER_PIECE", 3)

    def change(number: int, partition: int, leader: int) -> PartitionChangeRecord:
        return PartitionChangeRecord(topic_id=uuid(number), partition_id=partition, leader=leader)

    def partition(number: int, partition: int) -> PartitionRecord:
        return PartitionRecord(
            topic_id=uuid(number),
            partition_id=partition,
            replicas=[1, 2],
            isr=[1],
            eligible_leader_replicas=[2],
        )

    first = [topic(1), partition(1, 0), partition(1, 1), topic(2), partition(2, 0)]
    elections = [change(1, 0, 1), change(2, 0, 1), change(1, 0, 2), change(1, 1, 2)]
    forgotten = [change(1, 0, 1), ClearElrRecord(), change(1, 0, 2), change(1, 1, 2)]
    grown = [change(1, 0, 1), partition(1, 2), change(1, 2, 2), change(1, 0, 2), topic(3)]
    removed = [
        change(2, 0, 2),
        RemoveTopicRecord(topic_id=uuid(2)),
        topic(2),
        partition(2, 0),
        change(2, 0, 1),
    ]
    many = [topic(4), partition(4, 0), topic(5), change(1, 0, 2), partition(5, 0), change(4, 0, 2)]
    for records in (elections, forgotten, grown, removed, many):
        within = [BeginTransactionRecord(name=""), *records, EndTransactionRecord()]
        for written in (records, within):
            loader = MetadataLoader()
            expected = image.ClusterImage()
            for record in first:
                expected.replay(record)
                loader.image.replay(record)
            for record in records:
                expected.replay(record)
            values = [
                encode_record(each, 0 if isinstance(each, _NEVER_CHANGED) else 2)
                for each in written
            ]
            finish(loader.commit(CommittedBatch(0, len(written) - 1, 1, 0, 0, values)))
            assert image_of(loader.image) == image_of(expected)
            assert loader.image.take_delta().partitions == expected.take_delta().partitions


def test_what_follows_an_aborted_transaction_in_its_batch_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.controller.loader.RECORDS_PER_PIECE", 1)
    loader = MetadataLoader()
    finish(loader.commit(batch(0, BeginTransactionRecord(name=""))))
    finish(loader.commit(batch(1, topic(1), AbortTransactionRecord(), topic(2), topic(3))))
    assert sorted(loader.image.topics) == ["t2", "t3"]


def test_it_knows_where_brokers_were_registered() -> None:
    loader = MetadataLoader()
    finish(loader.commit(batch(0, topic(1), RegisterBrokerRecord(broker_id=1, broker_epoch=0))))
    finish(loader.commit(batch(2, RegisterBrokerRecord(broker_id=2, broker_epoch=2))))
    assert loader.registration_offsets == {1: 1, 2: 2}
    finish(loader.commit(batch(3, UnregisterBrokerRecord(broker_id=1))))
    assert loader.registration_offsets == {2: 2}
    # Of a snapshot only its end is known.
    value = encode_record(RegisterBrokerRecord(broker_id=3, broker_epoch=2), 1)
    finish(loader.load(OffsetAndEpoch(9, 1), SnapshotContent(0, 0, None, [value])))
    assert loader.registration_offsets == {3: 8}


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


def quota(user: int, *, removes: bool) -> ClientQuotaRecord:
    entity = [EntityData(entity_type="user", entity_name=f"user-{user}")]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=7.0, remove=removes)


def test_who_has_thousands_of_quotas_is_found_out_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    quota_entity = image.quota_entity

    def finding(entity: list[EntityData]) -> image.QuotaEntity:
        found.append(entity)
        return quota_entity(entity)

    monkeypatch.setattr(image, "quota_entity", finding)
    count = 3 * RECORDS_PER_PIECE
    records = [quota(user, removes=False) for user in range(count)]
    loader = MetadataLoader()
    most = before = 0
    for _ in loader.commit(batch(0, *records, quota(0, removes=True))):
        # None of them counts before all do.
        assert len(loader.image.quotas) in {0, count - 1}
        most, before = max(most, len(found) - before), len(found)
    assert (most, len(found)) == (RECORDS_PER_PIECE, count + 1)
    users = [dict(entity)["user"] for entity in loader.image.quotas]
    assert users == [f"user-{user}" for user in range(1, count)]
    assert {tuple(one.items()) for one in loader.image.quotas.values()} == {
        (("producer_byte_rate", 7.0),)
    }
    assert len(loader.image.take_delta().quotas) == count


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
