"""What the four calls that describe groups have in common (15, 69, 77, 89).

Groups are described one by one, in turns of the loop if there are many, each with what the client
may do with it (KIP-430) if it asks for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.handlers import authorized_operations
from kaa.handlers.in_slices import asked_in_slices
from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.schema import Response


def describe_groups(
    services: Services,
    context: RequestContext,
    group_ids: Sequence[str],
    describe: Callable[[str, Callable[[CoordinatorError], Any]], asyncio.Future[Any]],
    described_group: Callable[..., Any],
    response: Callable[..., Response],
    *,
    with_operations: bool,
) -> Answer[Response | Encoded]:
    """The response about these groups, in their order, described or refused."""

    def ask(group_id: str) -> asyncio.Future[Any]:
        return describe(
            group_id,
            lambda refusal: described_group(
                group_id=group_id, error_code=refusal.error, members=[]
            ),
        )

    def respond(groups: list[Any]) -> Response:
        if with_operations:
            for group in groups:
                if group.error_code == Errors.NONE:
                    group.authorized_operations = authorized_operations.GROUP
        return response(groups=groups)

    return asked_in_slices(
        services,
        context,
        group_ids,
        ask,
        respond,
        slice_max=GROUPS_DESCRIBED_PER_SLICE_MAX,
    )
