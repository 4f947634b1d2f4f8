"""OffsetForLeaderEpoch, key 23: where a leader epoch ended, so that a reader can tell whether its
log and the leader's went different ways (KIP-101, and KIP-320 for consumers).

The answer names the largest epoch at or before the one asked for, and the first offset after it;
both are -1 if there is none. Version 3 says which replica asks; the answer is the same for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.errors import LogError
from kaa.wire.errors import Errors
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k23_offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


def handle(
    services: Services, request: OffsetForLeaderEpochRequest, _context: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _partition(services, topic.topic, partition) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    number = asked.partition
    partition = services.replicas.find(topic, number)
    if isinstance(partition, Errors):
        return EpochEndOffset(error_code=partition, partition=number)
    error = partition.check_leader_epoch(asked.current_leader_epoch)
    if error is Errors.NONE and not partition.is_leader:
        error = Errors.NOT_LEADER_OR_FOLLOWER
    if error is not Errors.NONE:
        return EpochEndOffset(error_code=error, partition=number)
    try:
        end = partition.epoch_end(asked.leader_epoch)
    except LogError as failure:
        return EpochEndOffset(error_code=failure.error, partition=number)
    return EpochEndOffset(partition=number, leader_epoch=end.epoch, end_offset=end.end_offset)
