from __future__ import annotations

from types import SimpleNamespace

from kaa.testing.request_parts import description, group_ids, parts, topic_name
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest
from kaa.wire.primitives import Uuid

ID = Uuid(bytes(range(16)))
SERVICES = SimpleNamespace(image=SimpleNamespace(topics_by_id={ID: SimpleNamespace(name="by-id")}))


def produce(name: str, topic_id: Uuid = ID) -> ProduceRequest:
    rows = [PartitionProduceData(index=number, records=b"") for number in (0, 2)]
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=rows)
    return ProduceRequest(topic_data=[topic])


def test_topics_and_partitions() -> None:
    ((row, partitions),) = parts(produce("t"))
    assert partitions == [0, 2]
    assert topic_name(SERVICES, row) == "t"
    assert description(SERVICES, produce("t")) == "t[0,2]"
    assert description(SERVICES, DeleteTopicsRequest(topic_names=["a", "b"])) == "a b"


def test_topics_by_id() -> None:
    assert description(SERVICES, produce("")) == "by-id[0,2]"
    assert description(SERVICES, produce("", Uuid(bytes(16)))) == "?[0,2]"


def test_groups_wherever_they_are_named() -> None:
    assert group_ids(HeartbeatRequest(group_id="g")) == ["g"]
    assert group_ids(DescribeGroupsRequest(groups=["a", "b"])) == ["a", "b"]
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[1])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    assert group_ids(asked) == ["g"]
    assert description(SERVICES, asked) == "t[1]"
    assert description(SERVICES, HeartbeatRequest(group_id="g")) == "group=g"
    assert group_ids(produce("t")) == []
