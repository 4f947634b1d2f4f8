"""OffsetCommit, key 8: stores how far a group has read.

Partitions that do not exist are refused one by one; the others go to the group coordinator
together, and are stored together.

Versions up to 4 may say how long the offset is to be kept (KIP-211 ended that). Version 6 added
leader epochs (KIP-320), 7 static members (KIP-345), 9 the errors of the consumer protocol
(KIP-848), 10 topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.unknown_partitions import all_refused, joined, part_topics
from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.controller.image import TopicImage
    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest

_TOPIC_IDS_VERSION = 10


def handle(
    services: Services, request: OffsetCommitRequest, context: RequestContext
) -> Answer[OffsetCommitResponse]:
    has_ids = context.api_version >= _TOPIC_IDS_VERSION
    if context.api_version < 7:
        # Before static members, the field does not exist.
        request.group_instance_id = None
    if _is_many(request.topics):
        return Pending(_commit_many(services, request, context))
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    _sort(services, request.topics, known, refused, has_ids=has_ids)
    if not known:
        return OffsetCommitResponse(topics=refused)
    request.topics = known
    committed = services.groups.commit_offsets(
        request, context.api_version, lambda error: _uncommitted(request, error)
    )
    return Pending(_merged(committed, refused) if refused else committed, Hold.NOTHING)


def _is_many(topics: list[OffsetCommitRequestTopic]) -> bool:
    count = len(topics)
    for topic in topics if count <= OFFSETS_LISTED_PER_SLICE_MAX else ():
        count += len(topic.partitions)
    return count > OFFSETS_LISTED_PER_SLICE_MAX


async def _commit_many(
    services: Services, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse:
    """The same with turns for others in between. The next request of the connection waits: it must
    not overtake this one.
    """
    has_ids = context.api_version >= _TOPIC_IDS_VERSION
    image = services.image

    def find(topic: OffsetCommitRequestTopic) -> TopicImage | None:
        found = image.topics_by_id.get(topic.topic_id) if has_ids else image.topics.get(topic.name)
        if found is not None:
            topic.name, topic.topic_id = found.name, found.id
        return found

    unknown = Errors.UNKNOWN_TOPIC_ID if has_ids else Errors.UNKNOWN_TOPIC_OR_PARTITION
    request.topics, refused = await part_topics(
        request.topics, find, _topic, OffsetCommitResponsePartition, unknown
    )
    response = OffsetCommitResponse(topics=[])
    if request.topics:
        committed = await services.groups.commit_offsets(
            request, context.api_version, lambda error: error.error
        )
        if isinstance(committed, Errors):
            response.topics = await all_refused(
                request.topics, committed, _topic, OffsetCommitResponsePartition
            )
        else:
            response = committed
    response.topics = joined(refused, response.topics)
    return response


def _sort(
    services: Services,
    topics: list[OffsetCommitRequestTopic],
    known: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
    *,
    has_ids: bool,
) -> None:
    """Sorts topics into what exists and the answers for what does not."""
    image = services.image
    for topic in topics:
        found = image.topics_by_id.get(topic.topic_id) if has_ids else image.topics.get(topic.name)
        if found is None:
            error = Errors.UNKNOWN_TOPIC_ID if has_ids else Errors.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_refused(topic, error))
        else:
            _split(topic, found, known, refused)


def _split(
    topic: OffsetCommitRequestTopic,
    found: TopicImage,
    known: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
) -> None:
    """Sorts the partitions of a topic into those that exist and those that do not."""
    topic.name, topic.topic_id = found.name, found.id
    if all(one.partition_index in found.partitions for one in topic.partitions):
        known.append(topic)
        return
    exist = [one for one in topic.partitions if one.partition_index in found.partitions]
    missing = [one for one in topic.partitions if one.partition_index not in found.partitions]
    if exist:
        known.append(OffsetCommitRequestTopic(name=found.name, topic_id=found.id, partitions=exist))
    if missing:
        unknown = OffsetCommitRequestTopic(name=found.name, topic_id=found.id, partitions=missing)
        refused.append(_refused(unknown, Errors.UNKNOWN_TOPIC_OR_PARTITION))


def _refused(topic: OffsetCommitRequestTopic, error: Errors) -> OffsetCommitResponseTopic:
    return _topic(
        topic,
        [
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


def _topic(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitResponsePartition]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _uncommitted(request: OffsetCommitRequest, error: CoordinatorError) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(topics=[_refused(topic, error.error) for topic in request.topics])


async def _merged(
    committed: Awaitable[OffsetCommitResponse], refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """The answer to the partitions that exist, together with the refusals of the others."""
    response = await committed
    response.topics = joined(refused, response.topics)
    return response
