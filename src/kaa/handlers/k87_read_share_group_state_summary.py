"""ReadShareGroupStateSummary, key 87: the numbers of share partitions without their batches.

A partition without state has start offset -1. Version 1 added the number of records that are done
with (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.share_state import ask_each
from kaa.wire.messages.k87_read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from kaa.coordinators.share.state import ShareState
    from kaa.handlers.context import RequestContext
    from kaa.handlers.share_state import StateOutcome
    from kaa.serving.services import Services
    from kaa.wire.messages.k87_read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
    )


async def handle(
    services: Services, request: ReadShareGroupStateSummaryRequest, _: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    share = services.shares
    found = await ask_each(
        request,
        lambda key, _: share.summary(key),
    )
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic_id=topic_id, partitions=[_result(one) for one in outcomes])
            for topic_id, outcomes in found
        ]
    )


def _result(outcome: StateOutcome) -> PartitionResult:
    state: ShareState | None = outcome.value
    if state is None:
        return PartitionResult(
            partition=outcome.partition, error_code=outcome.error, error_message=outcome.message
        )
    return PartitionResult(
        partition=outcome.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
