"""ShareGroupDescribe, key 77: share groups with their members and what each reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.share.coordinator import SHARE_FEATURE
from kaa.handlers.described_groups import describe_groups
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: ShareGroupDescribeRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    if services.image.features.get(SHARE_FEATURE, 0) < 1:
        error = Errors.UNSUPPORTED_VERSION
        groups = [
            DescribedGroup(group_id=one, error_code=error, error_message=error.message, members=[])
            for one in request.group_ids
        ]
        return ShareGroupDescribeResponse(groups=groups)
    return describe_groups(
        services,
        context,
        request.group_ids,
        services.groups.describe_share_group,
        DescribedGroup,
        ShareGroupDescribeResponse,
        with_operations=request.include_authorized_operations,
    )
