"""Requests of the same size as others that end otherwise: with one name too many, with replicas
that somebody has chosen, about what is not there, with a long list in one setting, or refused as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kaa.model.kinds import ResourceType
from kaa.wire.errors import Errors
from kaa.wire.messages import k80_add_raft_voter as k80
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kaa.wire.messages.k33_alter_configs import AlterableConfig as ReplacedConfig
from kaa.wire.messages.k33_alter_configs import AlterConfigsRequest
from kaa.wire.messages.k33_alter_configs import AlterConfigsResource as ReplacedResource
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from kaa.wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from kaa.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kaa.wire.primitives import Uuid
from kaa.wire.schema import Request
from tests.scale.requests import NAMES, NODE_ID, PARTITIONS, TIMEOUT_MS, changes
from tests.scale.steps import Scale

CHOSEN = 9_000
ABSENT = [f"absent-{number}" for number in range(10_000)]
GROUPS = [f"group-{number}" for number in range(10_000)]
MANY_ABSENT = [f"absent-{number}" for number in range(20_000)]
UNKNOWN_SETTINGS = [f"unknown-{number}" for number in range(50_000)]
MANY_KEYS = [f"key-{number}" for number in range(100_000)]
# As many as fit into a text of the protocol.
REPLICAS = ",".join(f"{number}:{NODE_ID}" for number in range(4_000))
THROTTLED = "leader.replication.throttled.replicas"
MANY = 100_000
APPEND, SUBTRACT = 2, 3
NO_TYPE = 9


def throttle(operation: int) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=THROTTLED, config_operation=operation, value=REPLICAS)
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=NAMES[0], configs=[change]
            )
        ]
    )


def settings(resource_type: int, name: str, count: int) -> IncrementalAlterConfigsRequest:
    """Sets many that nobody knows."""
    changed = [AlterableConfig(name=one, value="1") for one in UNKNOWN_SETTINGS[:count]]
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=changed)
        ],
        validate_only=True,
    )


def creation(names: list[str], partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=True,
    )


def partitions(numbers: Iterable[int]) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in numbers]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="absent", partitions=asked)]
    )


def quotas(keys: list[str]) -> AlterClientQuotasRequest:
    """Takes away many that nobody knows."""
    entry = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name="u")],
        ops=[OpData(key=key, remove=True) for key in keys],
    )
    return AlterClientQuotasRequest(entries=[entry], validate_only=True)


ODD: dict[str, Request[Any]] = {
    "Metadata, with a name that cannot be created": MetadataRequest(
        topics=[MetadataRequestTopic(name=one) for one in [*NAMES, "not a name"]],
        allow_auto_topic_creation=True,
    ),
    "CreateTopics with chosen replicas": CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name="chosen",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=number, broker_ids=[NODE_ID])
                    for number in range(CHOSEN)
                ],
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=True,
    ),
    "CreatePartitions with chosen replicas": CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=NAMES[-1],
                count=PARTITIONS + CHOSEN,
                assignments=[CreatePartitionsAssignment(broker_ids=[NODE_ID])] * CHOSEN,
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=True,
    ),
    "DeleteTopics of what is not there": DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in ABSENT], timeout_ms=TIMEOUT_MS
    ),
    "DescribeConfigs of no type": DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=NO_TYPE, resource_name=name) for name in ABSENT
        ]
    ),
    "DescribeTopicPartitions of what is not there": DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in MANY_ABSENT]
    ),
    "DescribeTopicPartitions of nameless topics": DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="") for _ in MANY_ABSENT]
    ),
    "Metadata of what is not there": MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in MANY_ABSENT],
        allow_auto_topic_creation=False,
    ),
    "Metadata of more than can be created": MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in MANY_ABSENT],
        allow_auto_topic_creation=True,
    ),
    "Metadata of nameless topics": MetadataRequest(
        topics=[MetadataRequestTopic(name=None) for _ in MANY_ABSENT]
    ),
    "CreatePartitions of too many": CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=NAMES[0], count=200_000, assignments=None)],
        timeout_ms=TIMEOUT_MS,
    ),
    "CreateTopics of too many partitions": creation(MANY_ABSENT, 5),
    "CreateTopics of illegal names": creation([f"n {name}" for name in MANY_ABSENT], -1),
    "CreateTopics of the same name": creation([NAMES[0]] * len(MANY_ABSENT), 0),
    "DeleteTopics of the same name": DeleteTopicsRequest(
        topics=[DeleteTopicState(name=ABSENT[0]) for _ in MANY_ABSENT], timeout_ms=TIMEOUT_MS
    ),
    "DeleteTopics in no time": DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in MANY_ABSENT], timeout_ms=0
    ),
    "unknown settings of a topic": settings(ResourceType.TOPIC, NAMES[0], 50_000),
    "unknown settings of a group": settings(ResourceType.GROUP, "g", 50_000),
    "unknown settings of the node": settings(ResourceType.BROKER, str(NODE_ID), 50_000),
    "AlterConfigs of unknown settings": AlterConfigsRequest(
        resources=[
            ReplacedResource(
                resource_type=ResourceType.TOPIC,
                resource_name=NAMES[0],
                configs=[ReplacedConfig(name=name, value="1") for name in UNKNOWN_SETTINGS],
            )
        ],
        validate_only=True,
    ),
    "DescribeConfigs of one node again and again": DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=ResourceType.BROKER,
                resource_name=str(NODE_ID),
                configuration_keys=None,
            )
        ]
        * 500
    ),
    "DescribeConfigs of many keys": DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=NAMES[0],
                configuration_keys=MANY_KEYS,
            )
        ]
    ),
    "ListGroups of many states": ListGroupsRequest(states_filter=MANY_KEYS),
    "ListGroups of many types": ListGroupsRequest(types_filter=MANY_KEYS),
    "ListTransactions of many states": ListTransactionsRequest(state_filters=MANY_KEYS),
    "ListTransactions of many producers": ListTransactionsRequest(
        producer_id_filters=list(range(len(MANY_KEYS)))
    ),
    "AddRaftVoter with many listeners": k80.AddRaftVoterRequest(
        voter_id=NODE_ID + 1,
        voter_directory_id=Uuid(b"0123456789abcdef"),
        listeners=[k80.Listener(name=name, host="localhost", port=1) for name in MANY_ABSENT],
        timeout_ms=TIMEOUT_MS,
    ),
    "ListOffsets of many partitions": partitions(range(MANY)),
    "ListOffsets of each partition twice": partitions([*range(MANY // 2)] * 2),
    "DeleteGroups of what is not there": DeleteGroupsRequest(
        groups_names=[f"absent-{number}" for number in range(MANY)]
    ),
    "AlterClientQuotas of many keys": quotas(MANY_KEYS),
    "UpdateFeatures of what is not there": UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature=name, max_version_level=1) for name in MANY_KEYS]
    ),
    "a list that is appended to": throttle(APPEND),
    "a list that is taken from": throttle(SUBTRACT),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_requests(scale: Scale, name: str) -> None:
    if "chosen" in name:
        answer = scale.node.client.ask(ODD[name])
        (result,) = answer.topics if "Topics" in name else answer.results
        assert (result.error_code, result.error_message) == (Errors.NONE, None)
    scale.ask(name, ODD[name])


def test_settings_of_many_groups(scale: Scale) -> None:
    setting = "consumer.session.timeout.ms"
    request = changes(ResourceType.GROUP, GROUPS, setting, "45002")
    answer = scale.node.client.ask(request)
    assert {one.error_code for one in answer.responses} == {Errors.NONE}
    scale.ask("ListConfigResources of many groups", ListConfigResourcesRequest())
