"""DeleteGroups, key 42: deletes groups without members, with all that they committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.model.pieces import distinct, mapped
from kaa.model.turns import in_turns
from kaa.net.pending import Pending
from kaa.wire.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.errors import Errors
    from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest


def handle(
    services: Services, request: DeleteGroupsRequest, _: RequestContext
) -> Answer[DeleteGroupsResponse]:
    return Pending(_delete(services, request))


async def _delete(services: Services, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    errors = await services.groups.delete_groups(await in_turns(distinct(request.groups_names)))
    return DeleteGroupsResponse(results=await in_turns(mapped(_result, errors.items())))


def _result(deleted: tuple[str, Errors]) -> DeletableGroupResult:
    group_id, error = deleted
    return DeletableGroupResult(group_id=group_id, error_code=error)
