"""CreateAcls, key 30: adds ACLs. Without an authorizer each one gets SECURITY_DISABLED.

Version 1 brought prefixed patterns (KIP-290), version 3 users as a kind of resource (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.without_authorizer import MESSAGE, check_codes
from kaa.wire.errors import Errors
from kaa.wire.messages.k30_create_acls import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k30_create_acls import CreateAclsRequest


def handle(
    _services: NodeServices,
    request: CreateAclsRequest,
    _context: RequestContext,
) -> Answer[CreateAclsResponse]:
    for creation in request.creations:
        check_codes(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=Errors.SECURITY_DISABLED, error_message=MESSAGE)
            for _ in request.creations
        ]
    )
