"""Requests that name very many things of which there are none: topics without a partition, groups,
keys, transactions, members.

Each costs a few microseconds, and nothing of it is counted where only partitions are.
"""

from __future__ import annotations

from typing import Any

import pytest

from kaa.model.topics import CLUSTER_METADATA
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k21_delete_records import DeleteRecordsRequest, DeleteRecordsTopic
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kaa.wire.messages.k27_write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
)
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    RequestEntryData,
)
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kaa.wire.primitives import Uuid
from kaa.wire.schema import Request
from tests.scale.requests import TIMEOUT_MS
from tests.scale.steps import Scale

COUNT = 20_000
ABSENT = [f"absent-{number}" for number in range(COUNT)]
IDS = [Uuid(number.to_bytes(16)) for number in range(1, COUNT + 1)]
GROUP = "absent-group"

REQUESTS: dict[str, Request[Any]] = {
    "OffsetFetch of groups": OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=[]) for name in ABSENT]
    ),
    "OffsetFetch of topics by id": OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=GROUP, topics=[OffsetFetchRequestTopics(topic_id=one) for one in IDS]
            )
        ]
    ),
    "OffsetFetch of topics": OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name=name) for name in ABSENT]
    ),
    "FindCoordinator": FindCoordinatorRequest(key_type=0, coordinator_keys=ABSENT),
    "LeaveGroup": LeaveGroupRequest(
        group_id=GROUP, members=[MemberIdentity(member_id=name) for name in ABSENT]
    ),
    "DeleteRecords": DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name) for name in ABSENT], timeout_ms=TIMEOUT_MS
    ),
    "OffsetForLeaderEpoch": OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=name) for name in ABSENT]
    ),
    "AddPartitionsToTxn": AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(transactional_id=name) for name in ABSENT]
    ),
    "WriteTxnMarkers": WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=number) for number in range(COUNT)]
    ),
    "TxnOffsetCommit": TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=ABSENT[0],
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=number, committed_metadata="")
                    for number in range(COUNT)
                ],
            )
        ],
    ),
    "AlterReplicaLogDirs": AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path="/nowhere",
                topics=[AlterReplicaLogDirTopic(name=ABSENT[0], partitions=list(range(COUNT)))],
            )
        ]
    ),
    "ElectLeaders": ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=name) for name in ABSENT], timeout_ms=TIMEOUT_MS
    ),
    "AlterPartitionReassignments": AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name) for name in ABSENT], timeout_ms=TIMEOUT_MS
    ),
    "AlterClientQuotas": AlterClientQuotasRequest(
        entries=[RequestEntryData(entity=[EntityData(entity_type=name) for name in ABSENT])]
    ),
    "DescribeQuorum of topics": DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name=name) for name in ABSENT]
    ),
    "DescribeQuorum of partitions": DescribeQuorumRequest(
        topics=[
            RequestTopicData(
                topic_name=CLUSTER_METADATA,
                partitions=[RequestPartitionData(partition_index=one) for one in range(COUNT)],
            )
        ]
    ),
    "DescribeProducers": DescribeProducersRequest(
        topics=[TopicRequest(name=name) for name in ABSENT]
    ),
    "DescribeShareGroupOffsets": DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(
                group_id=GROUP,
                topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=name) for name in ABSENT],
            )
        ]
    ),
}
# Where the newest version has another form.
VERSIONS = {"OffsetFetch of topics": 7}


@pytest.mark.parametrize("name", REQUESTS)
def test_absent_things(scale: Scale, name: str) -> None:
    scale.ask(name, REQUESTS[name], VERSIONS.get(name))
