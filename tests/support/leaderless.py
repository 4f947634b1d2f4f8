"""A broker that names no leader for some partitions, as when the log directory of their only
replica is offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaa.client.metadata import Topic
    from kaa.testing import Broker, Fault


def without_leader(broker: Broker, topic: Topic, partitions: Collection[int]) -> Fault:
    """A rule: answers about metadata have this topic, without a leader of `partitions`."""
    host, port = broker.bootstrap_servers.rsplit(":", 1)

    def row(index: int) -> MetadataResponsePartition:
        is_led = index not in partitions
        replicas = list(topic.partitions[index].replicas)
        return MetadataResponsePartition(
            error_code=int(Errors.NONE if is_led else Errors.LEADER_NOT_AVAILABLE),
            partition_index=index,
            leader_id=replicas[0] if is_led else -1,
            leader_epoch=0,
            replica_nodes=replicas,
            isr_nodes=replicas,
            offline_replicas=[] if is_led else replicas,
        )

    def answer(_request: Any) -> MetadataResponse:
        node_id = topic.partitions[0].replicas[0]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node_id, host=host, port=int(port))],
            controller_id=node_id,
            topics=[
                MetadataResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[row(index) for index in range(len(topic.partitions))],
                )
            ],
        )

    return broker.on("Metadata").answer(answer)
