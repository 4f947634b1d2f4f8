"""DeleteGroups, key 42: deletes groups without members, with all that they committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest


async def handle(
    services: Services, request: DeleteGroupsRequest, _: RequestContext
) -> DeleteGroupsResponse:
    results = await services.groups.delete_groups(
        dict.fromkeys(request.groups_names),
        lambda name, refusal: DeletableGroupResult(group_id=name, error_code=refusal.error),
    )
    return DeleteGroupsResponse(results=results)
