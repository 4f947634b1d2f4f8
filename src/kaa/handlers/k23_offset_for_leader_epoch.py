"""OffsetForLeaderEpoch, key 23: where a leader epoch ended, so that a reader can tell whether its
log and the leader's went different ways (KIP-101, and KIP-320 for consumers).

The answer names the largest epoch at or before the one asked for, and the first offset after it;
both are -1 if there is none. Version 3 says which replica asks; the answer is the same for all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.handlers.in_slices import in_slices_and_pieces
from kaa.handlers.once_applied import once_applied
from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.log.errors import LogError
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k23_offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )


def handle(
    services: Services, request: OffsetForLeaderEpochRequest, _: RequestContext
) -> Answer[OffsetForLeaderEpochResponse]:
    serve = partial(
        in_slices_and_pieces,
        request.topics,
        lambda topic: _topic(services, topic),
        lambda topics: OffsetForLeaderEpochResponse(topics=topics),
        slice_max=OFFSETS_LISTED_PER_SLICE_MAX,
        cost=lambda topic: 1 + len(topic.partitions),
    )
    if not services.replicas.has_unapplied:
        return serve()
    asked = [(topic.topic, one.partition) for topic in request.topics for one in topic.partitions]
    return once_applied(services.replicas, asked, serve)


def _topic(services: Services, asked: OffsetForLeaderTopic) -> Pieces[OffsetForLeaderTopicResult]:
    name = asked.topic
    partitions = yield from mapped(lambda one: _partition(services, name, one), asked.partitions)
    return OffsetForLeaderTopicResult(topic=name, partitions=partitions)


def _partition(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    number = asked.partition
    partition = services.replicas.find(topic, number)
    if isinstance(partition, Errors):
        return EpochEndOffset(error_code=partition, partition=number)
    refusal = partition.read_refusal(asked.current_leader_epoch)
    if refusal is not None:
        return EpochEndOffset(error_code=refusal, partition=number)
    try:
        end = partition.epoch_end(asked.leader_epoch)
    except LogError as failure:
        return EpochEndOffset(error_code=failure.error, partition=number)
    return EpochEndOffset(partition=number, leader_epoch=end.epoch, end_offset=end.end_offset)
