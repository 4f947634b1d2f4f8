"""DescribeAcls, key 29: which ACLs there are. Without an authorizer: SECURITY_DISABLED.

Version 1 brought prefixed patterns (KIP-290), version 3 users as a kind of resource (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.without_authorizer import MESSAGE, check_codes
from kaa.wire.errors import Errors
from kaa.wire.messages.k29_describe_acls import DescribeAclsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k29_describe_acls import DescribeAclsRequest


def handle(
    _services: NodeServices,
    request: DescribeAclsRequest,
    _context: RequestContext,
) -> Answer[DescribeAclsResponse]:
    check_codes(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    return DescribeAclsResponse(error_code=Errors.SECURITY_DISABLED, error_message=MESSAGE)
