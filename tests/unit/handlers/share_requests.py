"""Requests about the state of one share partition."""

from __future__ import annotations

from typing import Any

from kaa.wire.errors import Errors
from kaa.wire.messages import (
    k83_initialize_share_group_state as k83,
)
from kaa.wire.messages import (
    k84_read_share_group_state as k84,
)
from kaa.wire.messages import (
    k85_write_share_group_state as k85,
)
from kaa.wire.messages import (
    k86_delete_share_group_state as k86,
)
from kaa.wire.messages import (
    k87_read_share_group_state_summary as k87,
)
from kaa.wire.messages import (
    k91_alter_share_group_offsets as k91,
)
from tests.unit.handlers.support import Node

GROUP = "g"


def share_node(*settings: str) -> Node:
    return Node("share.coordinator.state.topic.replication.factor=1", *settings)


def load_shares(node: Node) -> None:
    """Makes the state topic and a topic `t` with two partitions, and loads the coordinator."""
    if "__share_group_state" not in node.services.image.topics:
        node.create_topic("__share_group_state", 3)
        node.create_topic("t", 2)
    node.run(_load(node))


async def _load(node: Node) -> None:
    for shard in tuple(node.services.shares.runtime):
        await shard.load()


def topic_id(node: Node) -> Any:
    return node.services.image.topics["t"].id


def initialise(
    node: Node, partition: int = 0, epoch: int = 0, start: int = -1, topic: str = "t"
) -> Any:
    one = k83.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
    asked = k83.InitializeStateData(topic_id=node.services.image.topics[topic].id, partitions=[one])
    request = k83.InitializeShareGroupStateRequest(group_id=GROUP, topics=[asked])
    return node.ask(request).results[0].partitions[0]


def read(node: Node, partition: int = 0, leader_epoch: int = 0) -> Any:
    one = k84.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = k84.ReadStateData(topic_id=topic_id(node), partitions=[one])
    request = k84.ReadShareGroupStateRequest(group_id=GROUP, topics=[topic])
    return node.ask(request).results[0].partitions[0]


def write(node: Node, *batches: tuple[int, int, int, int], start: int = 0, **epochs: int) -> Any:
    one = k85.PartitionData(
        partition=0,
        state_epoch=epochs.get("state", 0),
        leader_epoch=epochs.get("leader", 0),
        start_offset=start,
        delivery_complete_count=len(batches),
        state_batches=[
            k85.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    topic = k85.WriteStateData(topic_id=topic_id(node), partitions=[one])
    request = k85.WriteShareGroupStateRequest(group_id=GROUP, topics=[topic])
    return node.ask(request).results[0].partitions[0]


def delete(node: Node, partition: int = 0) -> Any:
    one = k86.PartitionData(partition=partition)
    topic = k86.DeleteStateData(topic_id=topic_id(node), partitions=[one])
    request = k86.DeleteShareGroupStateRequest(group_id=GROUP, topics=[topic])
    return node.ask(request).results[0].partitions[0]


def summary(node: Node, partition: int = 0, version: int = 1) -> Any:
    one = k87.PartitionData(partition=partition, leader_epoch=0)
    topic = k87.ReadStateSummaryData(topic_id=topic_id(node), partitions=[one])
    request = k87.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=[topic])
    return node.ask(request, version).results[0].partitions[0]


def set_offset(node: Node, offset: int) -> None:
    """Has the group begin there in partition 0."""
    partition = k91.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topic = k91.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    answer = node.ask(k91.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]))
    assert answer.responses[0].partitions[0].error_code == Errors.NONE
