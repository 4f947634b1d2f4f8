"""DescribeProducers, key 61: what partitions remember of their idempotent and transactional
producers (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.names import topic_name_problem
from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending
from kaa.serving.applied import until_applied
from kaa.wire.errors import Errors
from kaa.wire.messages.k61_describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest


def handle(
    services: Services, request: DescribeProducersRequest, _: RequestContext
) -> Answer[DescribeProducersResponse]:
    return Pending(_describe(services, request))


async def _describe(
    services: Services, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    asked = ((one.name, number) for one in request.topics for number in one.partition_indexes)
    await until_applied(services.replicas, asked)
    topics = [await _topic(services, topic, turns) for topic in request.topics]
    return DescribeProducersResponse(topics=topics)


async def _topic(services: Services, asked: TopicRequest, turns: Turns) -> TopicResponse:
    await turns.next()
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
    refused = mapped(
        lambda number: PartitionResponse(
            partition_index=number, error_code=error, error_message=message
        ),
        asked.partition_indexes,
    )
    return TopicResponse(name=asked.name, partitions=await in_turns(refused))


async def _partition(
    services: Services, topic: str, number: int, turns: Turns
) -> PartitionResponse:
    await turns.next()
    partition = services.replicas.find(topic, number)
    if isinstance(partition, Errors):
        return PartitionResponse(partition_index=number, error_code=partition)
    refusal = partition.read_refusal()
    if refusal is not None:
        return PartitionResponse(partition_index=number, error_code=refusal)
    active: list[ProducerState] = []
    # A partition may have more producers than a cluster has partitions.
    for producer in tuple(partition.online_log().producer_state.producers.values()):
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
