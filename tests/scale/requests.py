"""Requests that name all of many topics, or all of their partitions, and one that writes to a
single partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kaa.controller.image import ClusterImage
from kaa.model.kinds import ResourceType
from kaa.records.build import BatchBuilder
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kaa.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest
from kaa.wire.messages.k43_elect_leaders import TopicPartitions as ElectionTopicPartitions
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kaa.wire.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest
from kaa.wire.messages.k61_describe_producers import TopicRequest as ProducersOfTopic
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from kaa.wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from kaa.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kaa.wire.messages.k78_share_fetch import FetchPartition as SharePartition
from kaa.wire.messages.k78_share_fetch import FetchTopic as ShareTopic
from kaa.wire.messages.k78_share_fetch import ShareFetchRequest
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kaa.wire.schema import Request

TOPICS = 2_000
PARTITIONS = 5
NAMES = [f"topic-{number}" for number in range(TOPICS)]
NUMBERS = list(range(PARTITIONS))
NODE_ID = 1
SHARE_GROUP = "shared"
TIMEOUT_MS = 120_000


def configs(kind: ResourceType, names: list[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for name in names
        ]
    )


def moves(path: str, names: list[str]) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=NUMBERS) for name in names]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])


def reassignments(
    names: list[str], numbers: list[int], replicas: list[int] | None
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=number, replicas=replicas)
                    for number in numbers
                ],
            )
            for name in names
        ],
        timeout_ms=TIMEOUT_MS,
    )


def questions(names: list[str], numbers: list[int]) -> Mapping[str, Request[Any]]:
    """Requests that name all of these; asked twice, they change nothing the second time."""
    return {
        **_of_clients(names, numbers),
        **_of_operators(names, numbers),
    }


def _of_clients(names: list[str], numbers: list[int]) -> Mapping[str, Request[Any]]:
    return {
        "Metadata of all": MetadataRequest(topics=None),
        "Metadata by name": MetadataRequest(
            topics=[MetadataRequestTopic(name=one) for one in names]
        ),
        "ListOffsets": ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=number, timestamp=-1)
                        for number in numbers
                    ],
                )
                for name in names
            ],
        ),
        "ListGroups": ListGroupsRequest(),
        "DescribeGroups": DescribeGroupsRequest(groups=names),
        "ConsumerGroupDescribe": ConsumerGroupDescribeRequest(group_ids=names),
        "ShareGroupDescribe": ShareGroupDescribeRequest(group_ids=names),
        "DescribeShareGroupOffsets of groups": DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(group_id=one, topics=None) for one in names
            ]
        ),
        "DescribeShareGroupOffsets of topics": DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(
                    group_id="nobody",
                    topics=[
                        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                        for name in names
                    ],
                )
            ]
        ),
        "DescribeTransactions": DescribeTransactionsRequest(transactional_ids=names),
        "DescribeConfigs of topics": configs(ResourceType.TOPIC, names),
        "DescribeConfigs of groups": configs(ResourceType.GROUP, names),
        "DeleteRecords": DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        DeleteRecordsPartition(partition_index=number, offset=0)
                        for number in numbers
                    ],
                )
                for name in names
            ],
            timeout_ms=TIMEOUT_MS,
        ),
    }


def _of_operators(names: list[str], numbers: list[int]) -> Mapping[str, Request[Any]]:
    return {
        "OffsetForLeaderEpoch": OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic=name,
                    partitions=[
                        OffsetForLeaderPartition(partition=number, leader_epoch=0)
                        for number in numbers
                    ],
                )
                for name in names
            ]
        ),
        "DescribeProducers": DescribeProducersRequest(
            topics=[ProducersOfTopic(name=name, partition_indexes=numbers) for name in names]
        ),
        "DescribeLogDirs": DescribeLogDirsRequest(topics=None),
        "DescribeLogDirs by name": DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=name, partitions=numbers) for name in names]
        ),
        "AlterPartitionReassignments to where they are": reassignments(names, numbers, [NODE_ID]),
        "AlterPartitionReassignments that are cancelled": reassignments(names, numbers, None),
        "ListPartitionReassignments": ListPartitionReassignmentsRequest(topics=None),
        "ListPartitionReassignments by name": ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name in names
            ]
        ),
        "DescribeClientQuotas": DescribeClientQuotasRequest(components=[]),
        "DescribeQuorum": DescribeQuorumRequest(
            topics=[
                RequestTopicData(
                    topic_name=name,
                    partitions=[RequestPartitionData(partition_index=0)],
                )
                for name in ["__cluster_metadata", *names]
            ]
        ),
        "DescribeCluster": DescribeClusterRequest(),
        "ListTransactions": ListTransactionsRequest(),
        "ListConfigResources": ListConfigResourcesRequest(),
        "DescribeTopicPartitions": DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names]
        ),
        "ElectLeaders": ElectLeadersRequest(
            election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS
        ),
        "ElectLeaders by name": ElectLeadersRequest(
            election_type=0,
            topic_partitions=[
                ElectionTopicPartitions(topic=name, partitions=numbers) for name in names
            ],
            timeout_ms=TIMEOUT_MS,
        ),
    }


def markers(names: list[str], numbers: list[int]) -> WriteTxnMarkersRequest:
    """The end of a transaction that has all of these."""
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=numbers) for name in names]
    marker = WritableTxnMarker(
        producer_id=1 << 40, producer_epoch=0, transaction_result=False, topics=topics
    )
    return WriteTxnMarkersRequest(markers=[marker])


def share_fetch(
    image: ClusterImage, names: list[str], numbers: list[int], epoch: int
) -> ShareFetchRequest:
    """Of all partitions in the first one of a session."""
    partitions = [SharePartition(partition_index=number) for number in numbers]
    topics = [
        ShareTopic(topic_id=image.topics[name].id, partitions=partitions)
        for name in (names if epoch == 0 else ())
    ]
    return ShareFetchRequest(
        group_id=SHARE_GROUP,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        share_session_epoch=epoch,
        max_wait_ms=300,
        min_bytes=1,
        max_records=100,
        batch_size=100,
        topics=topics,
        forgotten_topics_data=[],
    )


def large_record(image: ClusterImage, size: int) -> ProduceRequest:
    """For the first partition."""
    builder = BatchBuilder()
    builder.append(0, b"k", bytes(size))
    partition = PartitionProduceData(index=0, records=builder.build())
    topic = TopicProduceData(topic_id=image.topics[NAMES[0]].id, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def changes(kind: int, names: list[str], name: str, value: str) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=kind, resource_name=one, configs=[change])
            for one in names
        ]
    )


def records_of(
    image: ClusterImage,
    names: list[str],
    numbers: list[int],
    transactional_id: str | None = None,
    producer: tuple[int, int] = (-1, -1),
) -> ProduceRequest:
    """A small one for each partition."""
    builder = BatchBuilder(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=-1 if transactional_id is None else 0,
        is_transactional=transactional_id is not None,
    )
    builder.append(int(time.time() * 1000), b"k", b"v")
    records = builder.build()
    partitions = [PartitionProduceData(index=number, records=records) for number in numbers]
    topics = [
        TopicProduceData(topic_id=image.topics[name].id, partition_data=partitions)
        for name in names
    ]
    return ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics
    )
