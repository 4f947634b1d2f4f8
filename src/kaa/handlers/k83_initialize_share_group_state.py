"""InitializeShareGroupState, key 83: the group coordinator begins the state of share partitions.

A lower state epoch than the known one is refused with FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.share_state import ask_each, results_of
from kaa.wire.messages.k83_initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k83_initialize_share_group_state import InitializeShareGroupStateRequest


async def handle(
    services: Services, request: InitializeShareGroupStateRequest, _: RequestContext
) -> InitializeShareGroupStateResponse:
    share = services.shares
    found = await ask_each(
        request,
        lambda key, one: share.initialise(key, one.state_epoch, one.start_offset),
    )
    return InitializeShareGroupStateResponse(
        results=results_of(found, InitializeStateResult, PartitionResult)
    )
