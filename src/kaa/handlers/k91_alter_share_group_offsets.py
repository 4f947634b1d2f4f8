"""AlterShareGroupOffsets, key 91: where a share group without members goes on (KIP-932)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.limits import SHARE_PARTITIONS_PER_TURN_MAX
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k91_alter_share_group_offsets import AlterShareGroupOffsetsRequest
    from kaa.wire.primitives import Uuid


def handle(
    services: Services, request: AlterShareGroupOffsetsRequest, _: RequestContext
) -> Answer[AlterShareGroupOffsetsResponse]:
    if not request.group_id:
        return _refused(CoordinatorError(Errors.INVALID_GROUP_ID).for_clients())
    wanted = {
        topic.topic_name: {one.partition_index: one.start_offset for one in topic.partitions}
        for topic in request.topics
    }

    respond = partial(_response, services, request)
    return Pending(services.share_offsets.alter(request.group_id, wanted, _refused, respond))


def _refused(refusal: CoordinatorError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=refusal.error, error_message=refusal.message)


def _response(
    services: Services,
    request: AlterShareGroupOffsetsRequest,
    outcomes: Mapping[Uuid, Mapping[int, Errors]],
) -> Pieces[AlterShareGroupOffsetsResponse]:
    response = AlterShareGroupOffsetsResponse(responses=[])
    count = 0
    for asked in request.topics:
        image = services.image.topics.get(asked.topic_name)
        known = {} if image is None else outcomes.get(image.id, {})
        partitions = []
        for one in asked.partitions:
            partitions.append(_partition(one.partition_index, known))
            count += 1
            if count % SHARE_PARTITIONS_PER_TURN_MAX == 0:
                yield
        response.responses.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=UUID_ZERO if image is None else image.id,
                partitions=partitions,
            )
        )
    return response


def _partition(
    number: int, outcomes: Mapping[int, Errors]
) -> AlterShareGroupOffsetsResponsePartition:
    error = outcomes.get(number, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=number,
        error_code=error,
        error_message=None if error is Errors.NONE else error.message,
    )
