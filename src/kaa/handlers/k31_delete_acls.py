"""DeleteAcls, key 31: removes ACLs by filters. Without an authorizer each filter gets
SECURITY_DISABLED.

Version 1 brought prefixed patterns (KIP-290), version 3 users as a kind of resource (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.without_authorizer import MESSAGE, check_codes
from kaa.wire.errors import Errors
from kaa.wire.messages.k31_delete_acls import DeleteAclsFilterResult, DeleteAclsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k31_delete_acls import DeleteAclsRequest


def handle(
    _services: NodeServices,
    request: DeleteAclsRequest,
    _context: RequestContext,
) -> Answer[DeleteAclsResponse]:
    for wanted in request.filters:
        check_codes(
            wanted.resource_type_filter,
            wanted.pattern_type_filter,
            wanted.operation,
            wanted.permission_type,
        )
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=Errors.SECURITY_DISABLED, error_message=MESSAGE)
            for _ in request.filters
        ]
    )
