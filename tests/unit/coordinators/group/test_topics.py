"""Topics as groups see them."""

from __future__ import annotations

from kaa.controller.image import BrokerImage, ClusterImage
from kaa.coordinators.group.topics import GroupTopics
from kaa.limits import GROUP_TOPIC_HASHES_PER_PIECE, NAMES_ANSWERED_PER_SLICE_MAX
from kaa.wire.messages.metadata_cluster import UnregisterBrokerRecord
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id


def test_names_and_ids() -> None:
    topics = ConsumerBench().topics
    assert sorted(topics.names) == ["t", "u"]
    assert topics.topic_id("t") == topic_id("t")
    assert topics.topic_id("absent") is None
    assert topics.topic_ids(["t", "absent"]) == {topic_id("t")}
    assert topics.name(topic_id("u")) == "u"
    assert topics.name(Uuid(16)) is None
    assert topics.partition_count(topic_id("t")) == 4


def test_what_changes_the_hash() -> None:
    bench = ConsumerBench()
    topics = bench.topics
    assert topics.group_hash(["absent"]) == topics.group_hash([]) == 0
    both = topics.group_hash(["t", "u"])
    assert both == topics.group_hash(["u", "absent", "t"]) != topics.group_hash(["t"])
    bench.create("t", 5, start=4)
    more = topics.group_hash(["t", "u"])
    assert more != both
    bench.image.brokers[1] = bench.image.brokers[1]._replace(rack="another")
    bench.image._delta.brokers.add(1)
    bench._changed()
    assert topics.group_hash(["t", "u"]) != more
    bench.delete("t")
    assert topics.group_hash(["t", "u"]) == topics.group_hash(["u"])


def test_hashes_are_prepared_in_pieces() -> None:
    bench = ConsumerBench()
    names = [f"many-{number}" for number in range(2 * GROUP_TOPIC_HASHES_PER_PIECE)]
    for name in names:
        bench.create(name, 1)
    topics = bench.topics
    assert not topics.is_prepared(names)
    pieces = list(topics.prepare([*names, "absent"]))
    assert len(pieces) == 3
    assert topics.is_prepared([*names, "absent"])
    bench.create(names[0], 2, start=1)
    assert not topics.is_prepared(names)


def test_versions() -> None:
    bench = ConsumerBench()
    topics = bench.topics
    version, created = topics.version, topics.created_offset
    bench.image.replay(PartitionChangeRecord(topic_id=topic_id("t"), partition_id=0, leader=-1))
    bench._changed()
    assert topics.version == version + 1
    assert topics.created_offset == created
    bench.create("v", 1)
    assert topics.created_offset == topics.offset == bench.offset
    version = topics.version
    bench._changed()
    assert topics.version == version


def test_a_broker_that_is_gone_has_no_rack() -> None:
    image = ClusterImage()
    topics = GroupTopics()
    bench = ConsumerBench()
    before = bench.topics.group_hash(["t"])
    image.brokers[1] = BrokerImage(1, 7, Uuid(16), (), {}, None, False, False, (), None)
    image.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    topics.update(image, image.take_delta(), 1)
    assert topics.version == 1
    bench.image.brokers.clear()
    bench.image._delta.brokers.add(1)
    bench._changed()
    assert bench.topics.group_hash(["t"]) != before


def test_names_of_what_is_not_there_are_looked_at_in_pieces() -> None:
    absent = [f"absent-{number}" for number in range(3 * NAMES_ANSWERED_PER_SLICE_MAX)]
    assert len(list(GroupTopics().prepare(absent))) == 3 + 1
