"""ConsumerGroupDescribe, key 69: epochs, assignments and members of consumer groups (KIP-848).

Version 1 tells which protocol each member speaks (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.coordinator import GROUP_FEATURE
from kaa.handlers.described_groups import describe_groups
from kaa.wire.errors import Errors
from kaa.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    if services.image.features.get(GROUP_FEATURE, 0) < 1:
        error = Errors.UNSUPPORTED_VERSION
        refused = [
            DescribedGroup(group_id=one, error_code=error, members=[]) for one in request.group_ids
        ]
        return ConsumerGroupDescribeResponse(groups=refused)
    return describe_groups(
        services,
        context,
        request.group_ids,
        services.groups.describe_consumer_group,
        DescribedGroup,
        ConsumerGroupDescribeResponse,
        with_operations=request.include_authorized_operations,
    )
