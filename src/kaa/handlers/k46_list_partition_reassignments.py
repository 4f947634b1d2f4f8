"""ListPartitionReassignments, key 46: partitions whose replicas are being changed (KIP-455).

A null list asks for all. Topics and partitions that do not exist, or do not move, are left out.
Brokers and controllers answer from the same committed metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.controller.image import TopicImage
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k46_list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
    )


def handle(
    services: Services, request: ListPartitionReassignmentsRequest, _context: RequestContext
) -> ListPartitionReassignmentsResponse:
    topics = services.image.topics
    if request.topics is None:
        found = [_ongoing(topic, sorted(topic.partitions)) for topic in topics.values()]
    else:
        found = [
            _ongoing(topics[asked.name], asked.partition_indexes)
            for asked in request.topics
            if asked.name in topics
        ]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in found if topic.partitions]
    )


def _ongoing(topic: TopicImage, numbers: Iterable[int]) -> OngoingTopicReassignment:
    moving = []
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is None or not (partition.adding_replicas or partition.removing_replicas):
            continue
        moving.append(
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
        )
    return OngoingTopicReassignment(name=topic.name, partitions=moving)
