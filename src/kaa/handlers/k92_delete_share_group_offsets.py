"""DeleteShareGroupOffsets, key 92: a share group without members forgets topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors
from kaa.wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k92_delete_share_group_offsets import DeleteShareGroupOffsetsRequest
    from kaa.wire.primitives import Uuid


async def handle(
    services: Services, request: DeleteShareGroupOffsetsRequest, _: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    if not request.group_id:
        return _refused(CoordinatorError(Errors.INVALID_GROUP_ID))
    names = [topic.topic_name for topic in request.topics]
    try:
        outcomes = await services.share_offsets.delete(request.group_id, names)
    except CoordinatorError as refusal:
        return _refused(refusal)
    return DeleteShareGroupOffsetsResponse(
        responses=[_topic(services, name, outcomes) for name in names]
    )


def _refused(refusal: CoordinatorError) -> DeleteShareGroupOffsetsResponse:
    shown = refusal.for_clients()
    return DeleteShareGroupOffsetsResponse(error_code=shown.error, error_message=shown.message)


def _topic(
    services: Services, name: str, outcomes: Mapping[Uuid, Errors]
) -> DeleteShareGroupOffsetsResponseTopic:
    image = services.image.topics.get(name)
    error, topic_id = Errors.UNKNOWN_TOPIC_OR_PARTITION, UUID_ZERO
    if image is not None and image.id in outcomes:
        error, topic_id = outcomes[image.id], image.id
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=error,
        error_message=None if error is Errors.NONE else error.message,
    )
