"""OffsetDelete, key 47: drops offsets that a group committed for topics it does not read any more
(KIP-496).

Partitions that do not exist are refused one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.serving.turns import Turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest


async def handle(
    services: Services, request: OffsetDeleteRequest, _: RequestContext
) -> OffsetDeleteResponse:
    known: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    for topic in request.topics:
        await turns.next()
        image = services.image.topics.get(topic.name)
        exist = {} if image is None else image.partitions
        there = [one for one in topic.partitions if one.partition_index in exist]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        missing = [
            OffsetDeleteResponsePartition(
                partition_index=one.partition_index,
                error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for one in topic.partitions
            if one.partition_index not in exist
        ]
        if missing:
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=missing))
    if not known:
        return OffsetDeleteResponse(topics=refused)
    request.topics = known
    response = await services.groups.delete_offsets(
        request, lambda error: OffsetDeleteResponse(error_code=error.error, topics=[])
    )
    if response.error_code != Errors.NONE:
        return response
    by_name = {topic.name: topic for topic in refused}
    for deleted in response.topics:
        same = by_name.get(deleted.name)
        if same is None:
            refused.append(deleted)
        else:
            same.partitions += deleted.partitions
    response.topics = refused
    return response
