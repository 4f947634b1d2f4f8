"""ReadShareGroupState, key 84: the state of share partitions, for their leader.

A leader epoch that is higher than the known one is stored, so that older leaders are fenced.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.coordinators.share.state import batch_as
from kaa.handlers.share_state import ask_each
from kaa.limits import SHARE_BATCHES_PER_PIECE
from kaa.model.pieces import mapped
from kaa.wire.messages.k84_read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from kaa.coordinators.share.state import ShareState
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k84_read_share_group_state import ReadShareGroupStateRequest


def handle(
    services: Services, request: ReadShareGroupStateRequest, _: RequestContext
) -> Answer[ReadShareGroupStateResponse]:
    return ask_each(
        request,
        lambda one: services.shares.read(
            one.key, one.data.leader_epoch, one.refused, partial(_result, one.key.partition)
        ),
        ReadShareGroupStateResponse,
        ReadStateResult,
        partial(PartitionResult, state_batches=[]),
    )


def _result(number: int, state: ShareState) -> Pieces[PartitionResult]:
    batches = mapped(partial(batch_as, StateBatch), state.batches, SHARE_BATCHES_PER_PIECE)
    return PartitionResult(
        partition=number,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=(yield from batches),
    )
