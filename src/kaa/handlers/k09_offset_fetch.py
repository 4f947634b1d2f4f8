"""OffsetFetch, key 9: what groups have committed.

Up to version 7 a request asks for one group, and its answer has the error of the group from
version 2 on; before, the error stands with every partition. Version 2 may ask for all partitions by
leaving them out, 7 for stable offsets only (KIP-447), 8 asks for several groups (KIP-709), 9 names
the member that asks (KIP-848), 10 names topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX, OFFSETS_LISTED_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.model.topics import NO_OFFSET
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending
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
    from collections.abc import Callable

    from kaa.coordinators.group.offsets.committed import CommittedOffset
    from kaa.coordinators.group.offsets.fetch import Show
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest

P = TypeVar("P")

_GROUPS_VERSION = 8
_GROUP_ERROR_VERSION = 2
_TOPIC_IDS_VERSION = 10


def handle(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> Answer[OffsetFetchResponse]:
    return Pending(_fetch_all(services, request, context))


async def _fetch_all(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    version = context.api_version
    if version < _GROUPS_VERSION:
        return await _fetch_one(services, request, version)
    fetch = _fetch_by_id if version >= _TOPIC_IDS_VERSION else _fetch_by_name
    turns = Turns(GROUPS_DESCRIBED_PER_SLICE_MAX)
    response = OffsetFetchResponse(groups=[])
    for group in request.groups:
        await turns.next()
        answer = await fetch(services, group, require_stable=request.require_stable)
        response.groups.append(answer)
    return response


async def _fetch_one(
    services: Services, request: OffsetFetchRequest, version: int
) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        renamed = mapped(
            lambda topic: OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            ),
            request.topics,
        )
        topics = await in_turns(renamed)
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    found = await services.groups.fetch_offsets(
        group, _shown_alone, require_stable=request.require_stable
    )
    if not isinstance(found, Errors):
        answers = await in_turns(
            mapped(
                lambda topic: OffsetFetchResponseTopic(
                    name=topic.name, partitions=topic.partitions
                ),
                found,
            )
        )
        return OffsetFetchResponse(topics=answers)
    response = OffsetFetchResponse(error_code=found, topics=[])
    if version < _GROUP_ERROR_VERSION:
        turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
        response.topics = [
            OffsetFetchResponseTopic(
                name=topic.name, partitions=await _refused(topic, found, _shown_alone, turns)
            )
            for topic in group.topics or ()
        ]
    return response


async def _fetch_by_name(
    services: Services, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    found = await services.groups.fetch_offsets(group, _shown, require_stable=require_stable)
    if isinstance(found, Errors):
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=found)
    topics = await in_turns(
        mapped(
            lambda topic: OffsetFetchResponseTopics(
                name=topic.name, topic_id=topic.topic_id, partitions=topic.partitions
            ),
            found,
        )
    )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


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
            await turns.next()
            found = by_id.get(topic.topic_id)
            if found is None:
                unknown.append(
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=await _refused(topic, Errors.UNKNOWN_TOPIC_ID, _shown, turns),
                    )
                )
            else:
                topic.name = found.name
                known.append(topic)
        group.topics = known
    answer = await _fetch_by_name(services, group, require_stable=require_stable)
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
    topic: OffsetFetchRequestTopics, error: Errors, show: Show[P], turns: Turns
) -> list[P]:
    await turns.next()
    refused = []
    for index in topic.partition_indexes:
        await turns.next()
        refused.append(show(index, None, error))
    return refused


def _shown(
    index: int, committed: CommittedOffset | None, error: Errors
) -> OffsetFetchResponsePartitions:
    return _partition(OffsetFetchResponsePartitions, index, committed, error)


def _shown_alone(
    index: int, committed: CommittedOffset | None, error: Errors
) -> OffsetFetchResponsePartition:
    return _partition(OffsetFetchResponsePartition, index, committed, error)


def _partition(
    kind: Callable[..., P], index: int, committed: CommittedOffset | None, error: Errors
) -> P:
    if committed is None:
        return kind(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return kind(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
