from __future__ import annotations

import gc
import weakref

import pytest

from kaa.controller.draft import Draft
from kaa.controller.image import ClusterImage
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import finish
from kaa.wire.messages.metadata_cluster import ProducerIdsRecord, RegisterBrokerRecord
from kaa.wire.messages.metadata_settings import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
)
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


def partition(topic: int, number: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=uuid(topic),
        partition_id=number,
        replicas=[1, 2],
        isr=[1],
        eligible_leader_replicas=[2],
    )


def setting(name: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=name, name=key, value=value)


def quota(user: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    entity = [EntityData(entity_type="user", entity_name=user)]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


FIRST: list[MetadataRecord] = [
    RegisterBrokerRecord(broker_id=1, broker_epoch=1),
    TopicRecord(name="a", topic_id=uuid(1)),
    partition(1, 0),
    partition(1, 1),
    TopicRecord(name="b", topic_id=uuid(2)),
    partition(2, 0),
    setting("a", "retention.ms", "1"),
    setting("a", "segment.ms", "1"),
    setting("b", "retention.ms", "1"),
    quota("u", 1.0),
    quota("v", 1.0),
    AccessControlEntryRecord(id=uuid(7), principal="User:a"),
]


def image_with_first() -> ClusterImage:
    image = ClusterImage()
    for record in FIRST:
        image.replay(record)
    return image


@pytest.mark.parametrize(
    "records",
    [
        [PartitionChangeRecord(topic_id=uuid(1), partition_id=1, leader=2)],
        [PartitionChangeRecord(topic_id=uuid(1), partition_id=1, leader=2)] * 3,
        [partition(1, 2), PartitionChangeRecord(topic_id=uuid(1), partition_id=2, leader=2)],
        [partition(1, 0)],
        [RemoveTopicRecord(topic_id=uuid(1)), TopicRecord(name="a", topic_id=uuid(3))],
        [partition(2, 1), RemoveTopicRecord(topic_id=uuid(2))],
        [RemoveTopicRecord(topic_id=uuid(2)), TopicRecord(name="b", topic_id=uuid(2))],
        [TopicRecord(name="c", topic_id=uuid(3)), partition(3, 0), setting("c", "a", "b")],
        [ClearElrRecord(topic_name="a")],
        [ClearElrRecord()],
        [setting("a", "retention.ms", "2"), setting("a", "x", "y")],
        [setting("a", "segment.ms", None), setting("b", "retention.ms", None)],
        [setting("b", "retention.ms", None), setting("b", "retention.ms", "3")],
        [setting("none", "retention.ms", None)],
        [quota("u", 2.0), quota("w", 3.0), quota("v", 0.0, remove=True)],
        [quota("v", 0.0, remove=True), quota("v", 4.0)],
        [AccessControlEntryRecord(id=uuid(7), principal="User:b")],
        [RemoveAccessControlEntryRecord(id=uuid(7))],
        [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000)],
    ],
    ids=lambda records: "-".join(type(record).__name__ for record in records),
)
def test_nothing_counts_before_it_is_adopted_and_everything_after(
    records: list[MetadataRecord],
) -> None:
    image, expected = image_with_first(), image_with_first()
    before = image_of(image)
    image.take_delta()
    expected.take_delta()
    draft = finish(Draft.begin(image))
    for record in records:
        draft.replay(record)
        expected.replay(record)
        assert image_of(image) == before
    assert not image.take_delta()
    changes = image.changes
    image.adopt(draft)
    assert image_of(image) == image_of(expected)
    assert list(image.records()) == list(expected.records())
    assert image.changes > changes
    delta, wanted = image.take_delta(), expected.take_delta()
    for name in wanted.__slots__:
        assert list(getattr(delta, name)) == list(getattr(wanted, name)), name


def test_what_was_not_announced_stays_with_what_is_new() -> None:
    image = image_with_first()
    draft = finish(Draft.begin(image))
    draft.replay(partition(1, 2))
    image.adopt(draft)
    partitions = [(uuid(1), 0), (uuid(1), 1), (uuid(2), 0), (uuid(1), 2)]
    assert list(image.take_delta().partitions) == partitions


def test_who_holds_a_topic_keeps_what_it_was() -> None:
    image = image_with_first()
    topics, topic = image.topics, image.topics["a"]
    draft = finish(Draft.begin(image))
    draft.replay(PartitionChangeRecord(topic_id=uuid(1), partition_id=0, leader=2))
    draft.replay(RemoveTopicRecord(topic_id=uuid(2)))
    image.adopt(draft)
    assert list(topics) == ["a", "b"]
    assert topic.partitions[0].leader != 2
    assert image.topics["a"].partitions[0].leader == 2
    assert image.topics["a"] is image.topics_by_id[uuid(1)]


def test_many_old_values_are_freed_in_pieces() -> None:
    class Watched(AccessControlEntryRecord):
        """One that can be seen to be freed."""

        __slots__ = ("__weakref__",)

    count = 3 * RECORDS_PER_PIECE
    gc.collect()
    image = ClusterImage()
    freed: list[int] = []
    for number in range(count):
        record = Watched(id=uuid(number))
        weakref.finalize(record, freed.append, number)
        image.acls[record.id] = record
        del record
    draft = finish(Draft.begin(image))
    for number in range(count):
        draft.replay(RemoveAccessControlEntryRecord(id=uuid(number)))
    image.adopt(draft)
    assert not image.acls
    assert not freed
    counts = [len(freed) for _ in draft.let_go()]
    assert counts == [0, RECORDS_PER_PIECE, 2 * RECORDS_PER_PIECE]
    assert len(freed) == count
