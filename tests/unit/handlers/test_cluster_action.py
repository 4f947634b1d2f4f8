"""Every key between nodes asks whether the sender may act as one."""

from __future__ import annotations

from typing import Any

import pytest

from kaa.handlers.registry import BROKER_APIS, CONTROLLER_APIS
from kaa.wire.errors import Errors
from kaa.wire.messages import (
    k24_add_partitions_to_txn,
    k27_write_txn_markers,
    k83_initialize_share_group_state,
    k84_read_share_group_state,
    k85_write_share_group_state,
    k86_delete_share_group_state,
    k87_read_share_group_state_summary,
)
from kaa.wire.messages.k01_fetch import FetchRequest, ReplicaState
from kaa.wire.registry import ApiKey, api
from tests.support.ids import uuid
from tests.unit.handlers.support import Node

DENIED = Errors.CLUSTER_AUTHORIZATION_FAILED
# What Kafka's controller asks CLUSTER_ACTION for.
CONTROLLER_KEYS = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
# What clients may send to a controller as well; an authorizer has other questions about these.
CLIENT_KEYS = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


@pytest.fixture
def asked(node: Node) -> list[tuple[str, str]]:
    """A node on which nobody may act as one; who was asked about."""
    senders: list[tuple[str, str]] = []

    def nobody(listener_name: str, address: str) -> bool:
        senders.append((listener_name, address))
        return False

    node.services.view.may_act_as_node = nobody
    return senders


def test_every_key_of_a_controller_is_one_or_the_other() -> None:
    served = {each[0] if isinstance(each, tuple) else each for each in CONTROLLER_APIS}
    assert served == CONTROLLER_KEYS | CLIENT_KEYS


@pytest.mark.parametrize("key", sorted(CONTROLLER_KEYS))
def test_keys_of_controllers(node: Node, asked: list[tuple[str, str]], key: ApiKey) -> None:
    end = node.services.quorum.log.end()
    answer = node.ask(api(key).request(), listener="CONTROLLER")
    assert answer.error_code == DENIED
    assert [listener for listener, _ in asked] == ["CONTROLLER"]
    assert node.services.quorum.log.end() == end


def test_fetches_of_followers(node: Node, asked: list[tuple[str, str]]) -> None:
    consumer, follower = FetchRequest(), FetchRequest(replica_state=ReplicaState(replica_id=2))
    assert node.ask(consumer).error_code == Errors.NONE
    assert not asked
    assert node.ask(follower).error_code == DENIED
    assert [listener for listener, _ in asked] == ["PLAINTEXT"]


def test_transactions_that_are_verified(node: Node, asked: list[tuple[str, str]]) -> None:
    request = k24_add_partitions_to_txn.AddPartitionsToTxnRequest()
    assert node.ask(request, 4).error_code == DENIED
    asked.clear()
    node.load_transactions()
    node.ask(request, 3)
    assert not asked


def test_markers(node: Node, asked: list[tuple[str, str]]) -> None:
    module = k27_write_txn_markers
    topic = module.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 3])
    marker = module.WritableTxnMarker(producer_id=9, producer_epoch=1, topics=[topic])
    (answer,) = node.ask(module.WriteTxnMarkersRequest(markers=[marker])).markers
    assert answer.producer_id == 9
    found = [(one.partition_index, one.error_code) for one in answer.topics[0].partitions]
    assert found == [(0, DENIED), (3, DENIED)]
    assert len(asked) == 1


def share_requests() -> list[Any]:
    where = {"group_id": "g"}
    parts: tuple[tuple[Any, Any, Any], ...] = (
        (
            k83_initialize_share_group_state.InitializeShareGroupStateRequest,
            k83_initialize_share_group_state.InitializeStateData,
            k83_initialize_share_group_state.PartitionData,
        ),
        (
            k84_read_share_group_state.ReadShareGroupStateRequest,
            k84_read_share_group_state.ReadStateData,
            k84_read_share_group_state.PartitionData,
        ),
        (
            k85_write_share_group_state.WriteShareGroupStateRequest,
            k85_write_share_group_state.WriteStateData,
            k85_write_share_group_state.PartitionData,
        ),
        (
            k86_delete_share_group_state.DeleteShareGroupStateRequest,
            k86_delete_share_group_state.DeleteStateData,
            k86_delete_share_group_state.PartitionData,
        ),
        (
            k87_read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
            k87_read_share_group_state_summary.ReadStateSummaryData,
            k87_read_share_group_state_summary.PartitionData,
        ),
    )
    return [
        request(topics=[topic(topic_id=uuid(5), partitions=[partition(partition=3)])], **where)
        for request, topic, partition in parts
    ]


@pytest.mark.parametrize("request_", share_requests(), ids=lambda one: type(one).__name__)
def test_share_state(node: Node, asked: list[tuple[str, str]], request_: Any) -> None:
    (topic,) = node.ask(request_).results
    assert topic.topic_id == uuid(5)
    (found,) = topic.partitions
    assert (found.partition, found.error_code, found.error_message) == (3, DENIED, DENIED.message)
    assert len(asked) == 1


def test_what_brokers_serve_to_clients_is_not_asked_about(
    node: Node, asked: list[tuple[str, str]]
) -> None:
    for key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.OFFSET_FOR_LEADER_EPOCH):
        assert key in BROKER_APIS
        node.ask(api(key).request())
    assert not asked
