"""The handlers of keys 15, 69, 77 and 89 are tested with their coordinator; this is the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.handlers import authorized_operations
from kaa.handlers.described_groups import describe_groups
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import DescribedGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("with_operations", [True, False])
def test_what_a_client_may_do_is_told_of_groups_that_are_there(*, with_operations: bool) -> None:
    loop = asyncio.new_event_loop()

    def describe(
        group_id: str, refused: Callable[[CoordinatorError], DescribedGroup]
    ) -> asyncio.Future[DescribedGroup]:
        answer = Promise(loop, refused)
        if group_id == "gone":
            return answer.refuse(CoordinatorError(Errors.NOT_COORDINATOR))
        answer.keep(DescribedGroup(group_id=group_id, members=[]))
        return answer

    nothing = cast("Any", None)
    answer = describe_groups(
        nothing,
        nothing,
        ["gone", "there"],
        describe,
        DescribedGroup,
        ShareGroupDescribeResponse,
        with_operations=with_operations,
    )
    loop.close()
    assert isinstance(answer, ShareGroupDescribeResponse)
    not_asked = DescribedGroup().authorized_operations
    told = authorized_operations.GROUP if with_operations else not_asked
    assert [
        (group.group_id, group.error_code, group.authorized_operations) for group in answer.groups
    ] == [("gone", Errors.NOT_COORDINATOR, not_asked), ("there", Errors.NONE, told)]
