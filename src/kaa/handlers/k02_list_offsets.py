"""ListOffsets, key 2: offsets by timestamp, or by a special position.

| timestamp | position |
|---|---|
| -1 | latest: the high watermark, or the last stable offset for readers of committed data |
| -2 | earliest |
| -3 | the record with the largest timestamp (version 7, KIP-734) |
| -4 | earliest on this disk (version 8, KIP-405) |
| -5 | latest that was tiered (version 9, KIP-1005) |
| -6 | earliest that is still to be tiered (version 11, KIP-1023) |
| >= 0 | the first record at or after that time, in remote storage (KIP-1075) or on this disk |

The batch with a time in it is found by its index, and looked through by a thread if that may take
long.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, OFFSETS_LISTED_PER_SLICE_MAX
from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending
from kaa.serving.applied import until_applied
from kaa.serving.offset_search import search_offset
from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.wire.messages.k02_list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

LATEST: Final = -1
# The version that brought each special position; older ones do not know it.
_VERSION_OF: Final = {-3: 7, -4: 8, -5: 9, -6: 11}
_LOWEST: Final = -6
_LEADER_EPOCH_VERSION: Final = 4
_NOT_AVAILABLE_VERSION: Final = 5


def handle(
    services: Services, request: ListOffsetsRequest, context: RequestContext
) -> Answer[ListOffsetsResponse]:
    return Pending(_list_offsets(services, request, context))


async def _list_offsets(
    services: Services, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    isolation = FetchIsolation.of(request.replica_id, request.isolation_level)
    response = ListOffsetsResponse(topics=[])
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    if services.replicas.has_unapplied:
        await until_applied(
            services.replicas,
            ((one.name, each.partition_index) for one in request.topics for each in one.partitions),
        )
    for topic in request.topics:
        if topic.partitions:
            answer = await _topic(services, topic, isolation, context.api_version, turns)
            response.topics.append(answer)
        else:
            await turns.next()
    return response


async def _topic(
    services: Services,
    topic: ListOffsetsTopic,
    isolation: FetchIsolation,
    version: int,
    turns: Turns,
) -> ListOffsetsTopicResponse:
    """A partition that is asked for twice is refused, and answered once."""
    counts = await in_turns(_counted(topic.partitions))
    partitions = []
    refused = []
    for asked in topic.partitions:
        await turns.next()
        number = asked.partition_index
        if counts[number] == 1:
            partitions.append(await _partition(services, topic, asked, isolation, version))
        elif counts[number]:
            counts[number] = 0
            refused.append(_failed(number, Errors.INVALID_REQUEST))
    return ListOffsetsTopicResponse(name=topic.name, partitions=partitions + refused)


def _counted(partitions: Iterable[ListOffsetsPartition]) -> Pieces[Counter[int]]:
    """How often each is asked for."""
    counts: Counter[int] = Counter()
    rest = iter(partitions)
    while some := [one.partition_index for one in islice(rest, NAMES_ANSWERED_PER_SLICE_MAX)]:
        counts.update(some)
        if len(some) == NAMES_ANSWERED_PER_SLICE_MAX:
            yield
    return counts


async def _partition(
    services: Services,
    topic: ListOffsetsTopic,
    asked: ListOffsetsPartition,
    isolation: FetchIsolation,
    version: int,
) -> ListOffsetsPartitionResponse:
    number = asked.partition_index
    if asked.timestamp < _LOWEST or version < _VERSION_OF.get(asked.timestamp, 0):
        return _failed(number, Errors.UNSUPPORTED_VERSION)
    partition = services.replicas.find(topic.name, number)
    if isinstance(partition, Errors):
        return _failed(number, partition)
    refusal = partition.read_refusal(asked.current_leader_epoch)
    if refusal is not None:
        return _failed(number, refusal)
    try:
        response = await _look_up(services, partition, asked.timestamp, isolation)
    except LogError as failure:
        if failure.error is Errors.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_VERSION:
            return _failed(number, Errors.LEADER_NOT_AVAILABLE)
        return _failed(number, failure.error)
    if version < _LEADER_EPOCH_VERSION:
        response.leader_epoch = -1
    return response


async def _look_up(
    services: Services, partition: Partition, timestamp: int, isolation: FetchIsolation
) -> ListOffsetsPartitionResponse:
    log = partition.online_log()
    # Clients saw more of the leader before this one, and an offset must not go back (KIP-207).
    is_unsure = isolation is not FetchIsolation.LOG_END and partition.is_behind_predecessor()
    response = ListOffsetsPartitionResponse(partition_index=partition.number, timestamp=-1)
    end_offset = log.end_offset(isolation)
    if timestamp == LATEST:
        if is_unsure:
            raise LogError(Errors.OFFSET_NOT_AVAILABLE, "the high watermark is not known yet")
        response.offset, response.leader_epoch = end_offset, partition.leader_epoch
        return response
    found = None
    if timestamp >= 0 and log.is_tiered and services.remote_logs is not None:
        found = await services.remote_logs.find_by_time(partition, timestamp)
    if found is None:
        found = await search_offset(services.batch_work, partition, timestamp)
    if found is None or (timestamp >= 0 and found.offset >= end_offset):
        if found is not None and is_unsure:
            raise LogError(Errors.OFFSET_NOT_AVAILABLE, "the high watermark is not known yet")
        response.offset = response.leader_epoch = -1
        return response
    response.timestamp, response.offset = found.timestamp, found.offset
    response.leader_epoch = -1 if found.leader_epoch is None else found.leader_epoch
    return response


def _failed(number: int, error: Errors) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=number, error_code=error, timestamp=-1, offset=-1
    )
