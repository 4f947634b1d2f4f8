"""DeleteGroups, key 42: deletes groups without members, with all that they committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.model.pieces import mapped
from kaa.net.pending import Pending
from kaa.wire.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.errors import Errors
    from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest


def handle(
    services: Services, request: DeleteGroupsRequest, _: RequestContext
) -> Answer[DeleteGroupsResponse]:
    return Pending(services.groups.delete_groups(request.groups_names, _response))


def _response(errors: dict[str, Errors]) -> Pieces[DeleteGroupsResponse]:
    return DeleteGroupsResponse(results=(yield from mapped(_result, errors.items())))


def _result(deleted: tuple[str, Errors]) -> DeletableGroupResult:
    group_id, error = deleted
    return DeletableGroupResult(group_id=group_id, error_code=error)
