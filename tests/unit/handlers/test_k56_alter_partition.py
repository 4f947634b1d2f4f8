from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tests.unit.handlers.support import NODE_ID, Node


def request(node: Node, *, broker_epoch: int) -> AlterPartitionRequest:
    return AlterPartitionRequest(
        broker_id=NODE_ID,
        broker_epoch=broker_epoch,
        topics=[
            RequestTopicData(
                topic_id=node.services.image.topics["t"].id,
                partitions=[
                    RequestPartitionData(
                        partition_index=0,
                        new_isr_with_epochs=[
                            BrokerState(broker_id=NODE_ID, broker_epoch=broker_epoch)
                        ],
                    )
                ],
            )
        ],
    )


def test_the_set_in_sync(node: Node) -> None:
    node.create_topic("t")
    response = node.ask(request(node, broker_epoch=node.lifecycle.epoch), listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert (partition.error_code, partition.leader_id, partition.isr) == (0, NODE_ID, [NODE_ID])


def test_a_broker_that_was_replaced(node: Node) -> None:
    node.create_topic("t")
    response = node.ask(request(node, broker_epoch=-1), listener="CONTROLLER")
    assert response.error_code == Errors.STALE_BROKER_EPOCH
