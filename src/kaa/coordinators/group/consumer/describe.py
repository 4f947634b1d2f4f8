"""Consumer groups as administrators see them, and how their offsets end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.target import preferred_assignor
from kaa.coordinators.group.java_order import (
    integer_hash,
    map_order,
    set_order,
    string_hash,
    uuid_hash,
)
from kaa.coordinators.group.modern.describe import describe_one, described_members
from kaa.coordinators.group.offsets.committed import offset_tombstone
from kaa.model.pieces import mapped
from kaa.wire.messages.k69_consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.offsets.committed import Offsets
    from kaa.coordinators.group.streams.group import StreamsGroup
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import NewRecord
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer_group(
    groups: TimelineDict[str, Group],
    group_id: str,
    topics: GroupTopics,
    default_assignor: str,
) -> Pieces[DescribedGroup]:
    """Committed state; a group of another kind is refused."""
    return describe_one(
        groups,
        group_id,
        ConsumerGroup,
        lambda group: _describe(group, topics, default_assignor),
        DescribedGroup,
    )


def _describe(
    group: ConsumerGroup, topics: GroupTopics, default_assignor: str
) -> Pieces[DescribedGroup]:
    epochs = group.committed_epochs
    members = [member for _, member in group.members.committed_items()]
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.committed_state.value,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        assignor_name=preferred_assignor(members) or default_assignor,
    )
    # All of one moment, whatever changes while they are described.
    found = [(member, group.targets.committed(member.member_id) or {}) for member in members]
    described.members = yield from described_members(
        found,
        lambda one: _member(*one, topics),
        lambda one: len(one[0].subscribed_topic_names) + len(one[0].assigned) + len(one[1]),
    )
    return described


def _member(
    member: ConsumerMember, target: Mapping[Uuid, Iterable[int]], topics: GroupTopics
) -> Pieces[Member]:
    # It answers for what it is to give up until it has done so.
    owned = {topic_id: list(numbers) for topic_id, numbers in member.assigned.items()}
    for topic_id, numbers in member.pending_revocation.items():
        owned.setdefault(topic_id, []).extend(numbers)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=set_order(sorted(member.subscribed_topic_names), string_hash),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=(yield from _assignment(owned, topics)),
        target_assignment=(yield from _assignment(target, topics)),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(owned: Mapping[Uuid, Iterable[int]], topics: GroupTopics) -> Pieces[Assignment]:
    """Topics that do not exist any more are left out."""

    def topic(topic_id: Uuid) -> TopicPartitions:
        return TopicPartitions(
            topic_id=topic_id,
            topic_name=topics.name(topic_id) or "",
            partitions=map_order(owned[topic_id], integer_hash),
        )

    found = yield from mapped(topic, map_order(owned, uuid_hash))
    return Assignment(topic_partitions=[one for one in found if one.topic_name])


def expired_offsets(
    group: ConsumerGroup | StreamsGroup, offsets: Offsets, now_ms: int, retention_ms: int
) -> tuple[list[NewRecord], bool]:
    """Records that remove offsets of topics that the group does not read, when their time is up,
    and whether nothing is left then.
    """
    committed = offsets.of_group(group.group_id)
    pending = offsets.pending_of(group.group_id)
    if not committed:
        return [], not pending
    subscribed = group.subscribed_topics()
    records = [
        offset_tombstone(group.group_id, topic, partition)
        for (topic, partition), offset in committed.items()
        if topic not in subscribed
        and offset.has_expired(offset.commit_timestamp_ms, now_ms, retention_ms)
        and (topic, partition) not in pending
    ]
    return records, len(records) == len(committed) and not pending
