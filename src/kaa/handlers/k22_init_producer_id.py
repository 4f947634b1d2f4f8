"""InitProducerId, key 22: an id for a producer that wants its retries recognised.

An idempotent producer gets a new id at epoch 0 whenever it asks; an id that it brings along is not
continued, since only a transactional id ties a producer to its past. Producers with a transactional
id need a transaction coordinator, which this broker does not have: they never find one to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest


def handle(services: Services, request: InitProducerIdRequest, _: RequestContext) -> Any:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(Errors.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(
            Errors.COORDINATOR_NOT_AVAILABLE if request.transactional_id else Errors.INVALID_REQUEST
        )
    return _new_id(services)


async def _new_id(services: Services) -> InitProducerIdResponse:
    producer_id = await services.producer_ids.next_id()
    if isinstance(producer_id, Errors):
        return _refused(producer_id)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: Errors) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
