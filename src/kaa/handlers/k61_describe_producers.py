"""DescribeProducers, key 61: what partitions remember of their idempotent and transactional
producers (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.names import topic_name_problem
from kaa.handlers.in_slices import encoded
from kaa.handlers.settling import settle
from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.serving.turns import Turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k61_describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest


async def handle(
    services: Services, request: DescribeProducersRequest, context: RequestContext
) -> Encoded:
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    asked = ((one.name, number) for one in request.topics for number in one.partition_indexes)
    await settle(services.replicas, asked)
    topics = [await _topic(services, topic, turns) for topic in request.topics]
    return await encoded(services, context, DescribeProducersResponse(topics=topics))


async def _topic(services: Services, asked: TopicRequest, turns: Turns) -> TopicResponse:
    problem = topic_name_problem(asked.name)
    if problem is not None:
        error, message = Errors.INVALID_TOPIC_EXCEPTION, problem
    elif asked.name not in services.image.topics:
        error, message = Errors.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
    else:
        partitions = [
            await _partition(services, asked.name, each, turns) for each in asked.partition_indexes
        ]
        return TopicResponse(name=asked.name, partitions=partitions)
    return TopicResponse(
        name=asked.name,
        partitions=[
            PartitionResponse(partition_index=number, error_code=error, error_message=message)
            for number in asked.partition_indexes
        ],
    )


async def _partition(
    services: Services, topic: str, number: int, turns: Turns
) -> PartitionResponse:
    await turns.next()
    partition = services.replicas.find(topic, number)
    if isinstance(partition, Errors):
        return PartitionResponse(partition_index=number, error_code=partition)
    if not partition.is_leader:
        return PartitionResponse(partition_index=number, error_code=Errors.NOT_LEADER_OR_FOLLOWER)
    active: list[ProducerState] = []
    # A partition may have more producers than a cluster has partitions.
    for producer in tuple(partition.leader_log().producer_state.producers.values()):
        await turns.next()
        active.append(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
        )
    return PartitionResponse(partition_index=number, active_producers=active)
