"""DeleteShareGroupOffsets, key 92: a share group without members forgets topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.model.pieces import mapped
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k92_delete_share_group_offsets import DeleteShareGroupOffsetsRequest
    from kaa.wire.primitives import Uuid


def handle(
    services: Services, request: DeleteShareGroupOffsetsRequest, _: RequestContext
) -> Answer[DeleteShareGroupOffsetsResponse]:
    if not request.group_id:
        return _refused(CoordinatorError(Errors.INVALID_GROUP_ID).for_clients())
    names = [topic.topic_name for topic in request.topics]

    def respond(outcomes: dict[Uuid, Errors]) -> Pieces[DeleteShareGroupOffsetsResponse]:
        topics = yield from mapped(lambda name: _topic(services, name, outcomes), names)
        return DeleteShareGroupOffsetsResponse(responses=topics)

    return Pending(services.share_offsets.delete(request.group_id, names, _refused, respond))


def _refused(refusal: CoordinatorError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=refusal.error, error_message=refusal.message)


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
