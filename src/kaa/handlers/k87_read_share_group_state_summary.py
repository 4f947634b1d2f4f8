"""ReadShareGroupStateSummary, key 87: the numbers of share partitions without their batches.

A partition without state has start offset -1. Version 1 added the number of records that are done
with (KIP-1226).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.handlers.share_state import ask_each
from kaa.wire.messages.k87_read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from kaa.coordinators.share.state import ShareState
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k87_read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
    )


def handle(
    services: Services, request: ReadShareGroupStateSummaryRequest, _: RequestContext
) -> Answer[ReadShareGroupStateSummaryResponse]:
    return ask_each(
        request,
        lambda one: services.shares.summary(
            one.key, one.refused, partial(_result, one.key.partition)
        ),
        ReadShareGroupStateSummaryResponse,
        ReadStateSummaryResult,
        PartitionResult,
    )


def _result(number: int, state: ShareState) -> PartitionResult:
    return PartitionResult(
        partition=number,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
