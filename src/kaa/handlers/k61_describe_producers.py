"""DescribeProducers, key 61: what partitions remember of their idempotent and transactional
producers (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.names import topic_name_problem
from kaa.wire.errors import Errors
from kaa.wire.messages.k61_describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest


def handle(
    services: Services, request: DescribeProducersRequest, _context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[_topic(services, topic) for topic in request.topics])


def _topic(services: Services, asked: TopicRequest) -> TopicResponse:
    problem = topic_name_problem(asked.name)
    if problem is not None:
        error, message = Errors.INVALID_TOPIC_EXCEPTION, problem
    elif asked.name not in services.image.topics:
        error, message = Errors.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
    else:
        partitions = [_partition(services, asked.name, each) for each in asked.partition_indexes]
        return TopicResponse(name=asked.name, partitions=partitions)
    return TopicResponse(
        name=asked.name,
        partitions=[
            PartitionResponse(partition_index=number, error_code=error, error_message=message)
            for number in asked.partition_indexes
        ],
    )


def _partition(services: Services, topic: str, number: int) -> PartitionResponse:
    partition = services.replicas.find(topic, number)
    if isinstance(partition, Errors):
        return PartitionResponse(partition_index=number, error_code=partition)
    if not partition.is_leader:
        return PartitionResponse(partition_index=number, error_code=Errors.NOT_LEADER_OR_FOLLOWER)
    producers = partition.leader_log().producer_state.producers.values()
    return PartitionResponse(
        partition_index=number,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in producers
        ],
    )
