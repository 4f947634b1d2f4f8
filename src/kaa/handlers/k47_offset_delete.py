"""OffsetDelete, key 47: drops offsets that a group committed for topics it does not read any more
(KIP-496).

Partitions that do not exist are refused one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.unknown_partitions import joined, part_topics
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest


def handle(
    services: Services, request: OffsetDeleteRequest, _: RequestContext
) -> Answer[OffsetDeleteResponse]:
    return Pending(_delete(services, request))


async def _delete(services: Services, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    known, refused = await part_topics(
        request.topics,
        lambda topic: services.image.topics.get(topic.name),
        lambda topic, missing: OffsetDeleteResponseTopic(name=topic.name, partitions=missing),
        OffsetDeleteResponsePartition,
    )
    if not known:
        return OffsetDeleteResponse(topics=refused)
    request.topics = known
    response = await services.groups.delete_offsets(
        request, lambda error: OffsetDeleteResponse(error_code=error.error, topics=[])
    )
    if response.error_code != Errors.NONE:
        return response
    response.topics = joined(refused, response.topics)
    return response
