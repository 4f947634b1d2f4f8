"""AllocateProducerIds: blocks of ids, so that brokers can hand them out without asking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.controller.result import ControllerError, ControllerResult
from kaa.wire.errors import Errors
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsResponse
from kaa.wire.messages.metadata_cluster import ProducerIdsRecord

if TYPE_CHECKING:
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest

BLOCK_SIZE: Final = 1000
_ID_MAX: Final = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest, _: ControllerRequestContext
) -> ControllerResult[AllocateProducerIdsResponse]:
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    first = state.image.next_producer_id
    if first > _ID_MAX - BLOCK_SIZE:
        raise ControllerError(Errors.UNKNOWN_SERVER_ERROR, "there are no producer ids left")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return ControllerResult([record], response, is_atomic=False)
