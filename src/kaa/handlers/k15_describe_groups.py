"""DescribeGroups, key 15: state, protocol and members of classic groups.

A group that does not exist is described as dead; from version 6 on with an error (KIP-1043).
Version 3 added what the client may do with the group (KIP-430), 4 group instance ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers import authorized_operations
from kaa.wire.errors import Errors
from kaa.wire.messages.k15_describe_groups import DescribeGroupsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest


def handle(
    services: Services, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    groups = services.groups.describe(request.groups, context.api_version)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == Errors.NONE:
                group.authorized_operations = authorized_operations.GROUP
    return DescribeGroupsResponse(groups=groups)
