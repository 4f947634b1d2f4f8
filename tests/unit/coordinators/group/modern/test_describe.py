from __future__ import annotations

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.kinds import Group
from kaa.coordinators.group.modern.describe import describe_one, described_members
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import Pieces, finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import DescribedGroup


def test_groups_of_other_kinds_are_refused() -> None:
    timeline = Timeline()
    groups: TimelineDict[str, Group] = TimelineDict(timeline)
    groups["share"] = ShareGroup("share", timeline)
    groups["consumer"] = ConsumerGroup("consumer", timeline)
    timeline.commit(1)

    def described(group: ShareGroup) -> Pieces[DescribedGroup]:
        yield
        return DescribedGroup(group_id=group.group_id)

    found = [
        finish(describe_one(groups, group_id, ShareGroup, described, DescribedGroup))
        for group_id in ("consumer", "share", "none")
    ]
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
