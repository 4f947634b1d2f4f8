"""Groups that change their protocol while they live.

The first member with the consumer protocol makes a consumer group of a classic one: everybody keeps
its assignment, the generation becomes the epoch, and the others go on with the classic protocol
(`classic_members`). When the last member with the consumer protocol goes, and others are left, the
group becomes a classic one again, which rebalances. Whether either may happen is a setting.

Towards a consumer group, the records alone say what becomes; a command that goes on with the new
group works on one that is made of these records beside the memory. Towards a classic group, memory
is changed at once and the records are not replayed, since a classic group has more than its record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from kaa.coordinators.group.classic.records import group_record, group_tombstone
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.member import ConsumerMember
from kaa.coordinators.group.consumer.protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS, group_tombstones
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.messages.offsets_consumer import ClassicMemberMetadata, ClassicProtocol
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaa.coordinators.group.assignors.table import Assignment
    from kaa.coordinators.group.consumer.member import Owned
    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.outcome import Outcome
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import NewRecord


def upgrade(
    classic: ClassicGroup, settings: GroupSettings, topics: GroupTopics, outcome: Outcome
) -> ConsumerGroup:
    """The consumer group that a classic one becomes by the records; see `turn_away` too."""
    _check_upgrade(classic, settings)
    try:
        members = [_consumer_member(classic, one, topics) for one in classic.members.values()]
    except WireError:
        raise _refused(classic, "what its members sent cannot be read.") from None
    group_id, epoch = classic.group_id, classic.generation_id
    names = {name for member in members for name in member.subscribed_topic_names}
    records = [
        *(CONSUMER_RECORDS.member_record(group_id, member) for member in members),
        CONSUMER_RECORDS.epoch_record(group_id, epoch, topics.group_hash(names)),
        *(
            finish(CONSUMER_RECORDS.target_record(group_id, member.member_id, _target(member)))
            for member in members
        ),
        CONSUMER_RECORDS.target_epoch_record(group_id, epoch, 0),
        *(finish(CONSUMER_RECORDS.current_record(group_id, member)) for member in members),
    ]
    outcome.records += [group_tombstone(group_id), *records]
    return _made_of(group_id, records)


def _target(member: ConsumerMember) -> Assignment:
    return {topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items()}


def turn_away(classic: ClassicGroup, outcome: Outcome) -> None:
    """Tells those who wait for a rebalance of a group that is gone to come again."""
    error = Errors.REBALANCE_IN_PROGRESS
    for member in classic.members.values():
        response = JoinGroupResponse(member_id=member.member_id, error_code=error)
        outcome.reply(classic.take_waiting_join(member), response)
        waiter, member.waiting_sync = member.waiting_sync, None
        outcome.reply(waiter, SyncGroupResponse(error_code=error))


def _refused(classic: ClassicGroup, reason: str) -> CoordinatorError:
    return CoordinatorError(
        Errors.GROUP_ID_NOT_FOUND,
        f"Group {classic.group_id} stays a classic group: {reason}",
    )


def _check_upgrade(classic: ClassicGroup, settings: GroupSettings) -> None:
    if not settings.is_upgrade_enabled:
        raise _refused(classic, "group.consumer.migration.policy forbids the change.")
    if not classic.uses_consumer_protocol:
        raise _refused(classic, "its members are not consumers.")
    if len(classic.members) > settings.consumer_size_max:
        raise _refused(classic, "it has more members than group.consumer.max.size.")


def _consumer_member(
    classic: ClassicGroup, member: ClassicMember, topics: GroupTopics
) -> ConsumerMember:
    # A group in its first rebalance has no protocol yet, but its members have one in common.
    subscription = read_subscription(
        member.metadata(classic.protocol_name or classic.select_protocol())
    )
    epoch = classic.generation_id
    assigned: Owned = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(
                classic,
                "its assignor keeps data of its own in assignments, which would be lost.",
            )
        for topic in assignment.assigned_partitions:
            topic_id = topics.topic_id(topic.topic)
            if topic_id is not None:
                assigned[topic_id] = dict.fromkeys(topic.partitions, epoch)
    return ConsumerMember(
        member.member_id,
        epoch,
        epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
            ],
        ),
    )


def _made_of(group_id: str, records: list[NewRecord]) -> ConsumerGroup:
    timeline = Timeline()
    groups: TimelineDict[str, Group] = TimelineDict(timeline)
    for record in records:
        rest = CONSUMER_RECORDS.replay(groups, timeline, record.key, record.value)
        if rest is not None:
            finish(rest)
    group = groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


# --- towards a classic group


def can_downgrade_without(
    group: ConsumerGroup, gone: Collection[str], settings: GroupSettings
) -> bool:
    """Whether the group becomes a classic one when these members are gone."""
    left = [member for member in group.members.values() if member.member_id not in gone]
    return (
        0 < len(left) <= settings.classic_size_max
        and settings.is_downgrade_enabled
        and all(member.uses_classic_protocol for member in left)
    )


def can_downgrade_replacing(
    group: ConsumerGroup, replaced: ConsumerMember | None, settings: GroupSettings
) -> bool:
    """Whether it does when a classic member takes the place of a static one."""
    return (
        replaced is not None
        and not replaced.uses_classic_protocol
        and group.classic_member_count == len(group.members) - 1
        and settings.is_downgrade_enabled
        and len(group.members) <= settings.classic_size_max
    )


def downgrade(
    group: ConsumerGroup,
    gone: Collection[str],
    joining: ConsumerMember | None,
    topics: GroupTopics,
    now_ms: int,
    outcome: Outcome,
) -> ClassicGroup:
    """The classic group that a consumer group becomes; the records remove one and store the other.

    One that joins takes the place of the static member with its group instance id.
    """
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation_id = group.group_epoch
    replaced = None if joining is None else group.static_member(joining.instance_id)
    for member in group.members.values():
        if member.member_id not in gone and member is not replaced:
            classic.add(_classic_member(member), CONSUMER_PROTOCOL_TYPE)
    if joining is not None:
        classic.add(_classic_member(joining), CONSUMER_PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    for classic_member in classic.members.values():
        member_id = classic_member.member_id
        if joining is not None and replaced is not None and member_id == joining.member_id:
            member_id = replaced.member_id
        classic_member.assignment = write_assignment(
            group.target(member_id), topics, classic_member.metadata(classic.protocol_name)
        )
    classic.state = ClassicGroupState.STABLE
    renamed = {} if joining is None or replaced is None else {replaced.member_id: joining.member_id}
    outcome.records += group_tombstones(group, renamed)
    assignments = {one.member_id: one.assignment for one in classic.members.values()}
    outcome.store(group_record(classic, assignments))
    return classic


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        tuple((one.name, bytes(one.metadata)) for one in member.classic.supported_protocols),
    )
