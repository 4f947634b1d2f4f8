"""The handlers of keys 15, 69, 77 and 89 are tested with their coordinator; this is the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.coordinators.timeline import Timeline
from kaa.handlers import authorized_operations
from kaa.handlers.described_groups import describe_groups, described_members, of_kind
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import Pieces, finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import DescribedGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.group.kinds import Group


def described(group: ShareGroup) -> Pieces[DescribedGroup]:
    yield from ()
    return DescribedGroup(group_id=group.group_id, members=[])


class _Coordinator:
    """Coordinates every share group but one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def describe(
        self,
        group_id: str,
        describe: Callable[[Group | None], Pieces[DescribedGroup]],
        refused: Callable[[CoordinatorError], DescribedGroup],
        *,
        allows_empty_id: bool,
    ) -> asyncio.Future[DescribedGroup]:
        assert allows_empty_id
        answer = Promise(self._loop, refused)
        if group_id == "gone":
            return answer.refuse(CoordinatorError(Errors.NOT_COORDINATOR))
        answer.keep(finish(describe(ShareGroup(group_id, Timeline()))))
        return answer

    def close(self) -> None:
        self._loop.close()


@pytest.mark.parametrize("with_operations", [True, False])
def test_what_a_client_may_do_is_told_of_groups_that_are_there(*, with_operations: bool) -> None:
    coordinator = _Coordinator()
    answer = describe_groups(
        cast("GroupCoordinator", coordinator),
        ["gone", "there"],
        of_kind(ShareGroup, described, DescribedGroup),
        DescribedGroup,
        ShareGroupDescribeResponse,
        with_operations=with_operations,
        allows_empty_id=True,
    )
    coordinator.close()
    assert isinstance(answer, ShareGroupDescribeResponse)
    not_asked = DescribedGroup().authorized_operations
    told = authorized_operations.GROUP if with_operations else not_asked
    assert [
        (group.group_id, group.error_code, group.authorized_operations) for group in answer.groups
    ] == [("gone", Errors.NOT_COORDINATOR, not_asked), ("there", Errors.NONE, told)]


def test_groups_of_other_kinds_are_refused() -> None:
    timeline = Timeline()
    groups: dict[str, Group | None] = {
        "consumer": ConsumerGroup("consumer", timeline),
        "share": ShareGroup("share", timeline),
        "none": None,
    }
    describe = of_kind(ShareGroup, described, DescribedGroup)
    found = [finish(describe(group_id, group)) for group_id, group in groups.items()]
    not_found = Errors.GROUP_ID_NOT_FOUND
    assert [one.error_code for one in found] == [not_found, Errors.NONE, not_found]
    assert found[0].error_message == "Group consumer is a consumer group."
    assert found[2].error_message == "Group none is not there."


def test_large_members_have_turns_of_their_own() -> None:
    def described(member: int) -> Pieces[int]:
        yield from ()
        return member

    def pieces(size: int) -> int:
        members = range(2 * RECORDS_PER_PIECE)
        return len(list(described_members(members, described, lambda _: size)))

    assert pieces(0) == 2
    assert pieces(RECORDS_PER_PIECE) == 2 * RECORDS_PER_PIECE
