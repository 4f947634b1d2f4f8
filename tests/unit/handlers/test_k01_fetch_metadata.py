from __future__ import annotations

import pytest

from kaa.quorum.metadata_log import METADATA_TOPIC_ID
from kaa.records.batch import iter_batches
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from tests.unit.handlers.support import NODE_ID, Node

LEADER = NodeEndpoint(node_id=NODE_ID, host="127.0.0.1", port=9093)


def fetch(
    node: Node, offset: int, *, last_epoch: int = 0, older: int = 0, version: int = 18
) -> tuple[FetchResponse, PartitionData]:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=node.services.quorum.machine.epoch - older,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=10**6,
        high_watermark=-1,
    )
    request = FetchRequest(
        replica_id=7 if version < 15 else -1,
        replica_state=ReplicaState(replica_id=7) if version >= 15 else None,
        topics=[
            FetchTopic(
                topic="__cluster_metadata", topic_id=METADATA_TOPIC_ID, partitions=[partition]
            )
        ],
    )
    response: FetchResponse = node.ask(request, version, listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    ((found,),) = [topic.partitions for topic in response.responses]
    return response, found


@pytest.mark.parametrize("version", [13, 15, 16, 17, 18])
def test_records(node: Node, version: int) -> None:
    response, partition = fetch(node, 0, version=version)
    assert partition.error_code == Errors.NONE
    assert partition.high_watermark == node.services.image_offset + 1
    assert partition.current_leader == LeaderIdAndEpoch(
        leader_id=NODE_ID, leader_epoch=node.services.quorum.machine.epoch
    )
    assert partition.records is not None
    batches = list(iter_batches(bytes(partition.records)))
    assert batches[0].base_offset == 0
    assert batches[-1].next_offset == partition.high_watermark
    assert response.node_endpoints == ([LEADER] if version >= 17 else [])


def test_logs_that_went_different_ways(node: Node) -> None:
    epoch = node.services.quorum.machine.epoch
    _, partition = fetch(node, 10**6, last_epoch=epoch)
    end = node.services.quorum.log.end()
    assert partition.diverging_epoch == EpochEndOffset(epoch=epoch, end_offset=end.offset)
    assert not partition.records


@pytest.mark.parametrize(
    ("version", "older", "error"),
    [(13, 1, Errors.FENCED_LEADER_EPOCH), (18, -1, Errors.UNKNOWN_LEADER_EPOCH)],
)
def test_other_epochs(node: Node, version: int, older: int, error: Errors) -> None:
    _, partition = fetch(node, 0, older=older, version=version)
    assert partition.error_code == error
    assert partition.high_watermark == -1


@pytest.mark.parametrize("version", [11, 12])
def test_versions_without_topic_ids(node: Node, version: int) -> None:
    partition = FetchPartition(partition=0, partition_max_bytes=100)
    topic = FetchTopic(topic="__cluster_metadata", partitions=[partition])
    response = node.ask(FetchRequest(topics=[topic]), version, listener="CONTROLLER")
    assert (response.error_code, response.responses) == (Errors.INVALID_REQUEST, [])


def test_topics_that_are_no_metadata(node: Node) -> None:
    request = FetchRequest(topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[])])
    response = node.ask(request, listener="CONTROLLER")
    assert (response.error_code, response.responses) == (Errors.INVALID_REQUEST, [])
