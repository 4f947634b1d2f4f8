"""OffsetFetch, key 9: what groups have committed.

Up to version 7 a request asks for one group, and its answer has the error of the group from
version 2 on; before, the error stands with every partition. Version 2 may ask for all partitions by
leaving them out, 7 for stable offsets only (KIP-447), 8 asks for several groups (KIP-709), 9 names
the member that asks (KIP-848), 10 names topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.serving.turns import Turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest

_GROUPS_VERSION = 8
_GROUP_ERROR_VERSION = 2
_TOPIC_IDS_VERSION = 10


async def handle(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    version = context.api_version
    if version < _GROUPS_VERSION:
        return await _fetch_one(services, request, version)
    answers = []
    for group in request.groups:
        if version >= _TOPIC_IDS_VERSION:
            answer = await _fetch_by_id(services, group, require_stable=request.require_stable)
        else:
            answer = await _fetch(services, group, require_stable=request.require_stable)
        answers.append(answer)
    return OffsetFetchResponse(groups=answers)


def _fetch(
    services: Services, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> asyncio.Future[OffsetFetchResponseGroup]:
    def refused(error: CoordinatorError) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.error)

    return services.groups.fetch_offsets(group, refused, require_stable=require_stable)


async def _fetch_one(
    services: Services, request: OffsetFetchRequest, version: int
) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    answer = await _fetch(services, group, require_stable=request.require_stable)
    error = answer.error_code
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    if error != Errors.NONE and version < _GROUP_ERROR_VERSION:
        answer.topics = [await _refused(topic, error, turns) for topic in group.topics or ()]
    topics_answered = []
    for topic in answer.topics:
        one = OffsetFetchResponseTopic(name=topic.name, partitions=[])
        topics_answered.append(one)
        for partition in topic.partitions:
            await turns.next()
            one.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
            )
    return OffsetFetchResponse(error_code=error, topics=topics_answered)


async def _fetch_by_id(
    services: Services, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Topics have ids in request and answer; those without one any more are unknown."""
    by_id = services.image.topics_by_id
    unknown = []
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    if group.topics is not None:
        known = []
        for topic in group.topics:
            found = by_id.get(topic.topic_id)
            if found is None:
                unknown.append(await _refused(topic, Errors.UNKNOWN_TOPIC_ID, turns))
            else:
                topic.name = found.name
                known.append(topic)
        group.topics = known
    answer = await _fetch(services, group, require_stable=require_stable)
    if answer.error_code != Errors.NONE:
        return answer
    if group.topics is None:
        by_name = services.image.topics
        answer.topics = [topic for topic in answer.topics if topic.name in by_name]
        for topic_answer in answer.topics:
            topic_answer.topic_id = by_name[topic_answer.name].id
    answer.topics += unknown
    return answer


async def _refused(
    topic: OffsetFetchRequestTopics, error: int, turns: Turns
) -> OffsetFetchResponseTopics:
    refused = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=[])
    for index in topic.partition_indexes:
        await turns.next()
        refused.partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
        )
    return refused
