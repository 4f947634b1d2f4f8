"""DescribeGroups, key 15: state, protocol and members of classic groups.

A group that does not exist is described as dead; from version 6 on with an error (KIP-1043).
Version 3 added what the client may do with the group (KIP-430), 4 group instance ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.described_groups import describe_groups
from kaa.wire.messages.k15_describe_groups import DescribedGroup, DescribeGroupsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: DescribeGroupsRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    return describe_groups(
        services,
        context,
        request.groups,
        lambda one, refused: services.groups.describe_group(one, context.api_version, refused),
        DescribedGroup,
        DescribeGroupsResponse,
        with_operations=request.include_authorized_operations,
    )
