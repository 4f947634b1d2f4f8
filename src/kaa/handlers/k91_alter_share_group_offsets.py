"""AlterShareGroupOffsets, key 91: where a share group without members goes on (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors
from kaa.wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k91_alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )
    from kaa.wire.primitives import Uuid


async def handle(
    services: Services, request: AlterShareGroupOffsetsRequest, _: RequestContext
) -> AlterShareGroupOffsetsResponse:
    if not request.group_id:
        return _refused(CoordinatorError(Errors.INVALID_GROUP_ID))
    wanted = {
        topic.topic_name: {one.partition_index: one.start_offset for one in topic.partitions}
        for topic in request.topics
    }
    try:
        outcomes = await services.share_offsets.alter(request.group_id, wanted)
    except CoordinatorError as refusal:
        return _refused(refusal)
    return AlterShareGroupOffsetsResponse(
        responses=[_topic(services, topic, outcomes) for topic in request.topics]
    )


def _refused(refusal: CoordinatorError) -> AlterShareGroupOffsetsResponse:
    shown = refusal.for_clients()
    return AlterShareGroupOffsetsResponse(error_code=shown.error, error_message=shown.message)


def _topic(
    services: Services,
    asked: AlterShareGroupOffsetsRequestTopic,
    outcomes: Mapping[Uuid, Mapping[int, Errors]],
) -> AlterShareGroupOffsetsResponseTopic:
    image = services.image.topics.get(asked.topic_name)
    known = {} if image is None else outcomes.get(image.id, {})
    partitions = []
    for one in asked.partitions:
        error = known.get(one.partition_index, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index,
                error_code=error,
                error_message=None if error is Errors.NONE else error.message,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=UUID_ZERO if image is None else image.id,
        partitions=partitions,
    )
