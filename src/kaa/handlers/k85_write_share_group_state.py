"""WriteShareGroupState, key 85: the leader of share partitions stores what changed.

Lower leader and state epochs than the known ones are refused. Version 1 added the number of records
that are done with (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.share.machine import StateChange
from kaa.coordinators.share.state import batches_of
from kaa.handlers.share_state import ask_each, results_of
from kaa.wire.messages.k85_write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k85_write_share_group_state import WriteShareGroupStateRequest


async def handle(
    services: Services, request: WriteShareGroupStateRequest, _: RequestContext
) -> WriteShareGroupStateResponse:
    share = services.shares
    found = await ask_each(
        request,
        lambda key, one: share.write(
            key,
            StateChange(
                one.state_epoch,
                one.leader_epoch,
                one.start_offset,
                one.delivery_complete_count,
                tuple(batches_of(one.state_batches)),
            ),
        ),
    )
    return WriteShareGroupStateResponse(
        results=results_of(found, WriteStateResult, PartitionResult)
    )
