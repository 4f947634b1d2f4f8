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
from kaa.coordinators.group.modern.describe import describe_one
from kaa.coordinators.group.share.group import ShareGroup
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

ASSIGNOR: Final = "simple"


def describe_share_group(
    groups: TimelineDict[str, Group], group_id: str, topics: GroupTopics
) -> DescribedGroup:
    """Committed state; a group of another kind is refused."""
    return describe_one(
        groups, group_id, ShareGroup, lambda group: _describe(group, topics), DescribedGroup
    )


def _describe(group: ShareGroup, topics: GroupTopics) -> DescribedGroup:
    epochs = group.committed_epochs
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.shown_state,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, topics) for _, member in group.members.committed_items()],
    )


def _member(member: ShareMember, topics: GroupTopics) -> Member:
    found = []
    for topic_id in map_order(member.assigned, uuid_hash):
        name = topics.name(topic_id)
        if name is not None:
            numbers = map_order(member.assigned[topic_id], integer_hash)
            found.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers))
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=set_order(sorted(member.subscribed_topic_names), string_hash),
        assignment=Assignment(topic_partitions=found),
    )
