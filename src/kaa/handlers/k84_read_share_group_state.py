"""ReadShareGroupState, key 84: the state of share partitions, for their leader.

A leader epoch that is higher than the known one is stored, so that older leaders are fenced.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.handlers.share_state import ask_each
from kaa.wire.messages.k84_read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from kaa.coordinators.share.state import ShareState
    from kaa.handlers.context import Answer, RequestContext
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


def _result(number: int, state: ShareState) -> PartitionResult:
    return PartitionResult(
        partition=number,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.delivery_state,
                delivery_count=batch.delivery_count,
            )
            for batch in state.batches
        ],
    )
