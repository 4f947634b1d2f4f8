"""WriteShareGroupState, key 85: the leader of share partitions stores what changed.

Lower leader and state epochs than the known ones are refused. Version 1 added the number of records
that are done with (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.share.machine import StateChange
from kaa.handlers.share_state import ask_each
from kaa.wire.messages.k85_write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k85_write_share_group_state import (
        PartitionData,
        WriteShareGroupStateRequest,
    )


def handle(
    services: Services, request: WriteShareGroupStateRequest, _: RequestContext
) -> Answer[WriteShareGroupStateResponse]:
    return ask_each(
        request,
        lambda one: services.shares.write(one.key, _change(one.data), one.refused, one.done),
        WriteShareGroupStateResponse,
        WriteStateResult,
        PartitionResult,
    )


def _change(data: PartitionData) -> StateChange:
    return StateChange(
        data.state_epoch,
        data.leader_epoch,
        data.start_offset,
        data.delivery_complete_count,
        data.state_batches,
    )
