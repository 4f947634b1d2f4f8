"""DeleteShareGroupState, key 86: forgets the state of share partitions.

Deleting what is not there succeeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.share_state import ask_each
from kaa.wire.messages.k86_delete_share_group_state import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k86_delete_share_group_state import DeleteShareGroupStateRequest


def handle(
    services: Services, request: DeleteShareGroupStateRequest, _: RequestContext
) -> Answer[DeleteShareGroupStateResponse]:
    return ask_each(
        request,
        lambda one: services.shares.delete(one.key, one.refused, one.done),
        DeleteShareGroupStateResponse,
        DeleteStateResult,
        PartitionResult,
    )
