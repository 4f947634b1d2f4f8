"""StreamsGroupDescribe, key 89: streams groups with their topology, members and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.coordinator import STREAMS_FEATURE
from kaa.handlers.described_groups import describe_groups
from kaa.wire.errors import Errors
from kaa.wire.messages.k89_streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: StreamsGroupDescribeRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    protocols = services.config.get_list("group.coordinator.rebalance.protocols")
    if services.image.features.get(STREAMS_FEATURE, 0) < 1 or "streams" not in protocols:
        error = Errors.UNSUPPORTED_VERSION
        groups = [
            DescribedGroup(group_id=one, error_code=error, error_message=error.message, members=[])
            for one in request.group_ids
        ]
        return StreamsGroupDescribeResponse(groups=groups)
    return describe_groups(
        services,
        context,
        request.group_ids,
        services.groups.describe_streams_group,
        DescribedGroup,
        StreamsGroupDescribeResponse,
        with_operations=request.include_authorized_operations,
    )
