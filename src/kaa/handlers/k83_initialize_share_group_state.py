"""InitializeShareGroupState, key 83: the group coordinator begins the state of share partitions.

A lower state epoch than the known one is refused with FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.share_state import ask_each
from kaa.wire.messages.k83_initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k83_initialize_share_group_state import InitializeShareGroupStateRequest


def handle(
    services: Services, request: InitializeShareGroupStateRequest, _: RequestContext
) -> Answer[InitializeShareGroupStateResponse]:
    return ask_each(
        request,
        lambda one: services.shares.initialise(
            one.key, one.data.state_epoch, one.data.start_offset, one.refused, one.done
        ),
        InitializeShareGroupStateResponse,
        InitializeStateResult,
        PartitionResult,
    )
