from __future__ import annotations

from kaa.client.metadata import NO_NODE, Metadata
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kaa.wire.primitives import Uuid

ONE, TWO = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")


def answer(
    leader_id: int = 1, epoch: int = 5, topic_id: Uuid = ONE, error: Errors = Errors.NONE
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[2],
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host="h", port=node) for node in (1, 2)],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                error_code=error, name="t", topic_id=topic_id, partitions=[partition]
            )
        ],
    )


def test_look_ups() -> None:
    metadata = Metadata()
    metadata.update(answer())
    assert metadata.leader_of("t", 0) == 1
    assert metadata.leader_of("t", 1) == metadata.leader_of("x", 0) == NO_NODE
    assert metadata.topic_names == {ONE: "t"}
    assert metadata.brokers[2].address == "h:2"
    partition = metadata.partition("t", 0)
    assert partition is not None
    assert (partition.replicas, partition.isr, partition.offline_replicas) == ((1, 2), (1,), (2,))
    assert str(TopicPartition("t", 0)) == "t-0"


def test_leader_that_is_no_broker_is_none() -> None:
    metadata = Metadata()
    metadata.update(answer(leader_id=9))
    assert metadata.leader_of("t", 0) == NO_NODE


def test_older_news_are_passed_over_unless_the_topic_is_new() -> None:
    metadata = Metadata()
    metadata.update(answer(leader_id=2, epoch=6))
    metadata.update(answer(leader_id=1, epoch=5))
    assert metadata.leader_of("t", 0) == 2
    metadata.update(answer(leader_id=1, epoch=0, topic_id=TWO))
    assert metadata.leader_of("t", 0) == 1
    assert metadata.topic_names == {TWO: "t"}


def test_topic_with_an_error_is_forgotten() -> None:
    metadata = Metadata()
    metadata.update(answer())
    metadata.update(answer(error=Errors.UNKNOWN_TOPIC_OR_PARTITION))
    assert not metadata.topics
    assert metadata.topic_errors == {"t": Errors.UNKNOWN_TOPIC_OR_PARTITION}


def test_complete_answer_drops_what_it_does_not_name() -> None:
    metadata = Metadata()
    metadata.update(answer())
    empty = answer()
    empty.topics = []
    metadata.update(empty)
    assert "t" in metadata.topics
    metadata.update(empty, is_complete=True)
    assert not metadata.topics


def test_a_hint_counts_if_it_is_news_of_a_broker_that_is_known() -> None:
    metadata = Metadata()
    assert not metadata.learn_leader("t", 0, 1, 9), "nothing is known of the topic"
    metadata.update(answer(leader_id=2, epoch=6))
    assert not metadata.learn_leader("t", 0, 1, 6)
    assert not metadata.learn_leader("t", 0, 99, 7)
    assert metadata.leader_of("t", 0) == 2
    assert metadata.learn_leader("t", 0, 1, 7)
    assert metadata.leader_of("t", 0) == 1
    metadata.update(answer(leader_id=2, epoch=6))
    assert metadata.leader_of("t", 0) == 1, "older news"


def test_a_topic_that_was_deleted() -> None:
    metadata = Metadata()
    unknown = answer(error=Errors.UNKNOWN_TOPIC_OR_PARTITION)
    metadata.update(unknown)
    assert "was deleted" not in str(metadata.error_of("t"))
    metadata.update(answer())
    assert not metadata.is_deleted("t")
    metadata.update(unknown)
    assert metadata.is_deleted("t")
    found = metadata.error_of("t", "partition t-0")
    assert found.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert str(found).startswith("partition t-0: UNKNOWN_TOPIC_OR_PARTITION (3): the topic was del")
    assert "kaa topic create" in str(found)
    metadata.update(answer(topic_id=TWO))
    assert not metadata.is_deleted("t")
