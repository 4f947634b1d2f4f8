"""Share groups as administrators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.java_order import (
    integer_hash,
    map_order,
    set_order,
    string_hash,
    uuid_hash,
)
from kaa.coordinators.group.modern.describe import describe_one, described_members
from kaa.coordinators.group.share.group import ShareGroup
from kaa.model.pieces import mapped
from kaa.wire.messages.k77_share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.share.group import ShareMember
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

ASSIGNOR: Final = "simple"


def describe_share_group(
    groups: TimelineDict[str, Group], group_id: str, topics: GroupTopics
) -> Pieces[DescribedGroup]:
    """Committed state; a group of another kind is refused."""
    return describe_one(
        groups, group_id, ShareGroup, lambda group: _describe(group, topics), DescribedGroup
    )


def _describe(group: ShareGroup, topics: GroupTopics) -> Pieces[DescribedGroup]:
    epochs = group.committed_epochs
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.shown_state,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        assignor_name=ASSIGNOR,
    )
    described.members = yield from described_members(
        [member for _, member in group.members.committed_items()],
        lambda member: _member(member, topics),
        lambda member: len(member.subscribed_topic_names) + len(member.assigned),
    )
    return described


def _member(member: ShareMember, topics: GroupTopics) -> Pieces[Member]:
    def topic(topic_id: Uuid) -> TopicPartitions:
        return TopicPartitions(
            topic_id=topic_id,
            topic_name=topics.name(topic_id) or "",
            partitions=map_order(member.assigned[topic_id], integer_hash),
        )

    found = yield from mapped(topic, map_order(member.assigned, uuid_hash))
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=set_order(sorted(member.subscribed_topic_names), string_hash),
        assignment=Assignment(topic_partitions=[one for one in found if one.topic_name]),
    )
