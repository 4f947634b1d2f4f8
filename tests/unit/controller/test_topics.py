from __future__ import annotations

from typing import Any

import pytest

from kaa.controller.port import ControllerRequestContext
from kaa.controller.result import ControllerError
from kaa.model.kinds import ConfigSource
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableReplicaAssignment, CreateTopicsRequest
from kaa.wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kaa.wire.messages.metadata_settings import ConfigRecord
from kaa.wire.messages.metadata_topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from kaa.wire.primitives import UUID_ZERO
from tests.unit.controller.cluster import Cluster, directory, topic, uuid

RESOURCE_TOPIC = 2


def created_error(cluster: Cluster, *topics: Any, version: int | None = None) -> list[Errors]:
    response = cluster.send(CreateTopicsRequest(topics=list(topics)), version)
    return [Errors.of(result.error_code) for result in response.topics]


# --- creation


def test_creation_writes_topic_then_settings_then_partitions() -> None:
    cluster = Cluster()
    response = cluster.create("orders", partitions=2, configs={"retention.ms": "1000"})
    (result,) = response.topics
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert [type(record) for record in cluster.written] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    image = cluster.image.topics["orders"]
    assert image.id == result.topic_id
    assert cluster.image.configs[RESOURCE_TOPIC, "orders"] == {"retention.ms": "1000"}
    partition = image.partitions[1]
    assert partition.replicas == partition.isr == (0,)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (0, 0, 0)
    assert partition.directories == (directory(0),)


def test_answer_reports_the_settings_of_the_topic() -> None:
    cluster = Cluster()
    (result,) = cluster.create("orders", configs={"retention.ms": "1000"}).topics
    assert result.configs is not None
    values = {config.name: config.value for config in result.configs}
    assert values["retention.ms"] == "1000"
    assert values["segment.bytes"] == "1073741824"
    assert [config.name for config in result.configs] == sorted(values)
    sources = {config.name: config.config_source for config in result.configs}
    assert sources["retention.ms"] == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert sources["segment.bytes"] == ConfigSource.DEFAULT_CONFIG
    # Eligible leader replicas made it a setting of the whole cluster.
    assert sources["min.insync.replicas"] == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def test_settings_are_not_shown_to_who_may_not_see_them() -> None:
    cluster = Cluster()
    (result,) = cluster.create("orders", describable=frozenset()).topics
    assert result.error_code == Errors.NONE
    assert result.topic_config_error_code == Errors.TOPIC_AUTHORIZATION_FAILED
    assert (result.num_partitions, result.configs) == (-1, [])


def test_defaults_of_the_node_are_used_for_minus_one() -> None:
    cluster = Cluster(3, num_partitions="4", default_replication_factor="2")
    (result,) = cluster.create("orders", partitions=-1, factor=-1).topics
    assert (result.num_partitions, result.replication_factor) == (4, 2)
    assert len(cluster.image.topics["orders"].partitions) == 4


def test_validate_only_writes_nothing() -> None:
    cluster = Cluster()
    request = CreateTopicsRequest(topics=[topic("orders")], validate_only=True)
    response = cluster.send(request)
    assert response.topics[0].error_code == 0
    assert cluster.written == []
    assert cluster.image.topics == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250])
def test_wrong_names(name: str) -> None:
    assert created_error(Cluster(), topic(name)) == [Errors.INVALID_TOPIC_EXCEPTION]


def test_names_that_differ_by_dot_and_underscore_collide() -> None:
    cluster = Cluster()
    cluster.create("a.b")
    cluster.create("plain")
    assert created_error(cluster, topic("a_b")) == [Errors.INVALID_TOPIC_EXCEPTION]
    assert created_error(cluster, topic("ab")) == [Errors.NONE]
    assert created_error(cluster, topic("a.b")) == [Errors.TOPIC_ALREADY_EXISTS]


def test_existing_and_repeated_and_forbidden_names() -> None:
    cluster = Cluster()
    cluster.create("orders")
    assert created_error(cluster, topic("orders")) == [Errors.TOPIC_ALREADY_EXISTS]
    assert created_error(cluster, topic("twice"), topic("once"), topic("twice")) == [
        Errors.NONE,
        Errors.INVALID_REQUEST,
    ]
    assert created_error(cluster, topic("__cluster_metadata")) == [Errors.INVALID_REQUEST]
    assert created_error(cluster, topic("__consumer_offsets")) == [Errors.NONE]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("t", partitions=0), Errors.INVALID_PARTITIONS),
        (topic("t", partitions=-2), Errors.INVALID_PARTITIONS),
        (topic("t", factor=0), Errors.INVALID_REPLICATION_FACTOR),
        (topic("t", factor=-2), Errors.INVALID_REPLICATION_FACTOR),
        (topic("t", factor=3), Errors.INVALID_REPLICATION_FACTOR),
        (topic("t", replicas=[[0, 0]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", replicas=[[7]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", replicas=[[]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", replicas=[[0], [0, 1]]), Errors.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", configs={"no.such": "1"}), Errors.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": "x"}), Errors.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": None}), Errors.INVALID_CONFIG),
    ],
)
def test_refusals(wanted: Any, error: Errors) -> None:
    cluster = Cluster(2)
    assert created_error(cluster, wanted, topic("good")) == [error, Errors.NONE]
    assert list(cluster.image.topics) == ["good"]


def test_assignment_with_counts_is_refused() -> None:
    cluster = Cluster()
    wanted = topic("t", replicas=[[0]])
    wanted.num_partitions = 1
    assert created_error(cluster, wanted) == [Errors.INVALID_REQUEST]
    wanted.num_partitions, wanted.replication_factor = -1, 1
    assert created_error(cluster, wanted) == [Errors.INVALID_REQUEST]


def test_assignment_with_a_gap_or_twice_the_same_partition_is_refused() -> None:
    cluster = Cluster()
    wanted = topic("t", replicas=[[0], [0]])
    wanted.assignments[1].partition_index = 2
    assert created_error(cluster, wanted) == [Errors.INVALID_REPLICA_ASSIGNMENT]
    wanted.assignments = [
        CreatableReplicaAssignment(partition_index=0, broker_ids=[0]) for _ in range(2)
    ]
    assert created_error(cluster, wanted) == [Errors.INVALID_REPLICA_ASSIGNMENT]


def test_fenced_brokers_hold_replicas_but_are_not_in_sync() -> None:
    cluster = Cluster(3)
    cluster.fence(1)
    cluster.create("t", replicas=[[1, 2]])
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)
    assert created_error(cluster, topic("u", replicas=[[1]])) == [Errors.INVALID_REPLICA_ASSIGNMENT]
    cluster.fence(0, 2)
    assert created_error(cluster, topic("u")) == [Errors.INVALID_REPLICATION_FACTOR]


def test_too_many_partitions_in_one_request_refuse_all_of_it() -> None:
    cluster = Cluster(num_partitions="2")
    wanted = [topic("a", partitions=9_999), topic("b", partitions=-1)]
    with pytest.raises(ControllerError) as refused:
        cluster.send(CreateTopicsRequest(topics=wanted))
    assert refused.value.error is Errors.POLICY_VIOLATION


def test_more_records_than_a_batch_holds_refuse_the_topic() -> None:
    cluster = Cluster()
    wanted = [topic("a", partitions=5_000), topic("b", partitions=5_000)]
    assert created_error(cluster, *wanted) == [Errors.NONE, Errors.POLICY_VIOLATION]
    assert list(cluster.image.topics) == ["a"]


def test_partition_mutations_are_charged() -> None:
    cluster = Cluster()
    charged: list[int] = []

    def charge(count: int) -> None:
        charged.append(count)
        if sum(charged) > 5:
            raise ControllerError(Errors.THROTTLING_QUOTA_EXCEEDED)

    cluster.create("a", partitions=4, charge_partition_mutations=charge)
    (result,) = cluster.create("b", partitions=2, charge_partition_mutations=charge).topics
    assert result.error_code == Errors.THROTTLING_QUOTA_EXCEEDED
    assert charged == [4, 2]
    assert list(cluster.image.topics) == ["a"]


def test_several_directories_leave_the_choice_to_the_broker() -> None:
    cluster = Cluster(directories=2)
    cluster.create("t")
    assert cluster.image.topics["t"].partitions[0].directories == (
        (1).to_bytes(16, "big"),  # UNASSIGNED
    )


# --- deletion


def delete(cluster: Cluster, *states: DeleteTopicState) -> list[DeletableTopicResult]:
    response = cluster.send(DeleteTopicsRequest(topics=list(states)))
    results: list[DeletableTopicResult] = response.responses
    return results


def test_deletion_by_name_and_by_id() -> None:
    cluster = Cluster()
    cluster.create("a", configs={"retention.ms": "1"})
    cluster.create("b")
    ids = {name: found.id for name, found in cluster.image.topics.items()}
    results = delete(cluster, DeleteTopicState(name="a"), DeleteTopicState(topic_id=ids["b"]))
    assert {(each.name, each.topic_id, each.error_code) for each in results} == {
        ("a", ids["a"], 0),
        ("b", ids["b"], 0),
    }
    assert [type(record) for record in cluster.written] == [RemoveTopicRecord] * 2
    assert cluster.image.topics == {}
    assert (RESOURCE_TOPIC, "a") not in cluster.image.configs


def test_deletion_by_names_of_old_versions() -> None:
    cluster = Cluster()
    cluster.create("a")
    response = cluster.send(DeleteTopicsRequest(topic_names=["a", "nosuch"]), 5)
    assert [(each.name, each.error_code) for each in response.responses] == [
        ("a", 0),
        ("nosuch", Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_wrong_deletions() -> None:
    cluster = Cluster()
    cluster.create("a")
    topic_id = cluster.image.topics["a"].id
    wrong = [
        (DeleteTopicState(name="nosuch"), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(topic_id=uuid(5)), Errors.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(topic_id=UUID_ZERO), Errors.INVALID_REQUEST),
        (DeleteTopicState(name="a", topic_id=topic_id), Errors.INVALID_REQUEST),
    ]
    for state, error in wrong:
        (result,) = delete(cluster, state)
        assert result.error_code == error
    assert [each.error_code for each in delete(cluster, *[DeleteTopicState(name="a")] * 2)] == [
        Errors.INVALID_REQUEST
    ]
    assert "a" in cluster.image.topics
    results = delete(cluster, DeleteTopicState(name="a"), DeleteTopicState(topic_id=topic_id))
    assert [each.error_code for each in results] == [Errors.INVALID_REQUEST]
    assert "a" in cluster.image.topics


def test_deletion_can_be_disabled() -> None:
    cluster = Cluster(delete_topic_enable="false")
    cluster.create("a")
    for version, error in ((2, Errors.INVALID_REQUEST), (3, Errors.TOPIC_DELETION_DISABLED)):
        with pytest.raises(ControllerError) as refused:
            cluster.send(DeleteTopicsRequest(topic_names=["a"]), version)
        assert refused.value.error is error


def test_deletion_is_charged() -> None:
    cluster = Cluster()
    cluster.create("a", partitions=3)

    def refuse(count: int) -> None:
        assert count == 3
        raise ControllerError(Errors.THROTTLING_QUOTA_EXCEEDED)

    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])
    response = cluster.send(request, charge_partition_mutations=refuse)
    assert response.responses[0].error_code == Errors.THROTTLING_QUOTA_EXCEEDED
    assert "a" in cluster.image.topics


def test_very_many_topics_in_one_request_are_refused_quickly() -> None:
    """Each of them is looked at once, whatever the others are, with turns for others."""
    topics = [topic(f"t{number % 15_000}", partitions=0) for number in range(20_000)]
    cluster = Cluster(1)
    decided = cluster.machine.decide(
        CreateTopicsRequest(topics=topics), ControllerRequestContext(7), now_ms=0, next_offset=0
    )
    assert sum(1 for _ in decided) >= 50
    response = cluster.send(CreateTopicsRequest(topics=topics))
    errors = [Errors.of(each.error_code) for each in response.topics]
    assert errors.count(Errors.INVALID_PARTITIONS) == 10_000
    assert errors.count(Errors.INVALID_REQUEST) == 5_000
