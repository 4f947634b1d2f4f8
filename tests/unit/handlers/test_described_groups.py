"""The handlers of keys 15, 69, 77 and 89 are tested with their coordinator; this is the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.handlers import authorized_operations
from kaa.handlers.described_groups import describe_groups
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import DescribedGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize("with_operations", [True, False])
def test_what_a_client_may_do_is_told_of_groups_that_are_there(*, with_operations: bool) -> None:
    def describe(group_ids: Sequence[str]) -> list[DescribedGroup]:
        return [
            DescribedGroup(
                group_id=group_id,
                error_code=Errors.NONE if group_id == "there" else Errors.GROUP_ID_NOT_FOUND,
                members=[],
            )
            for group_id in group_ids
        ]

    nothing = cast("Any", None)
    answer = describe_groups(
        nothing,
        nothing,
        ["gone", "there"],
        describe,
        ShareGroupDescribeResponse,
        with_operations=with_operations,
    )
    assert isinstance(answer, ShareGroupDescribeResponse)
    not_asked = DescribedGroup().authorized_operations
    told = authorized_operations.GROUP if with_operations else not_asked
    assert [(group.group_id, group.authorized_operations) for group in answer.groups] == [
        ("gone", not_asked),
        ("there", told),
    ]
