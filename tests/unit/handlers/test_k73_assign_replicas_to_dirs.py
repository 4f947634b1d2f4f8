from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.primitives import Uuid
from tests.unit.handlers.support import NODE_ID, Node


def test_where_replicas_are(node: Node) -> None:
    node.create_topic("t")
    topic_id = node.services.image.topics["t"].id
    directory = node.services.image.brokers[NODE_ID].directories[1]
    request = AssignReplicasToDirsRequest(
        broker_id=NODE_ID,
        broker_epoch=node.lifecycle.epoch,
        directories=[
            RequestDirectoryData(
                id=directory,
                topics=[
                    RequestTopicData(
                        topic_id=each, partitions=[RequestPartitionData(partition_index=0)]
                    )
                    for each in (topic_id, Uuid(b"no-such-topic-id"))
                ],
            )
        ],
    )
    response = node.ask(request, listener="CONTROLLER")
    assert response.error_code == Errors.NONE
    (answered,) = response.directories
    errors = {topic.topic_id: topic.partitions[0].error_code for topic in answered.topics}
    assert errors == {topic_id: Errors.NONE, Uuid(b"no-such-topic-id"): Errors.UNKNOWN_TOPIC_ID}
    assert node.services.image.topics["t"].partitions[0].directories == (directory,)
