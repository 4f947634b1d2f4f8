"""ConsumerGroupDescribe, key 69: epochs, assignments and members of consumer groups (KIP-848).

Version 1 tells which protocol each member speaks (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.coordinator import GROUP_FEATURE
from kaa.handlers import authorized_operations
from kaa.wire.errors import Errors
from kaa.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest


def handle(
    services: Services, request: ConsumerGroupDescribeRequest, _: RequestContext
) -> ConsumerGroupDescribeResponse:
    if services.image.features.get(GROUP_FEATURE, 0) < 1:
        error = Errors.UNSUPPORTED_VERSION
        refused = [
            DescribedGroup(group_id=one, error_code=error, members=[]) for one in request.group_ids
        ]
        return ConsumerGroupDescribeResponse(groups=refused)
    groups = services.groups.describe_consumer_groups(request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == Errors.NONE:
                group.authorized_operations = authorized_operations.GROUP
    return ConsumerGroupDescribeResponse(groups=groups)
