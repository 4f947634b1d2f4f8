"""ReadShareGroupState, key 84: the state of share partitions, for their leader.

A leader epoch that is higher than the known one is stored, so that older leaders are fenced.
"""

from __future__ import annotations

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
    from kaa.handlers.context import RequestContext
    from kaa.handlers.share_state import StateOutcome
    from kaa.serving.services import Services
    from kaa.wire.messages.k84_read_share_group_state import ReadShareGroupStateRequest


async def handle(
    services: Services, request: ReadShareGroupStateRequest, _: RequestContext
) -> ReadShareGroupStateResponse:
    share = services.shares
    found = await ask_each(
        request,
        lambda key, one: share.read(key, one.leader_epoch),
    )
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(topic_id=topic_id, partitions=[_result(one) for one in outcomes])
            for topic_id, outcomes in found
        ]
    )


def _result(outcome: StateOutcome) -> PartitionResult:
    state: ShareState | None = outcome.value
    if state is None:
        return PartitionResult(
            partition=outcome.partition,
            error_code=outcome.error,
            error_message=outcome.message,
            state_batches=[],
        )
    return PartitionResult(
        partition=outcome.partition,
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
