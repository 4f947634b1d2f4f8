"""The target assignment of a consumer group: computed for a group epoch, stored as what changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.assignors.table import ASSIGNORS, GroupSpec, MemberSpec
from kaa.coordinators.group.consumer.group import is_homogeneous
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS
from kaa.coordinators.group.java_order import map_order, string_hash

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from kaa.coordinators.group.assignors.table import Assignment, GroupAssignment
    from kaa.coordinators.group.consumer.group import ConsumerGroup
    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import NewRecord
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid


class Computation(NamedTuple):
    """An assignment that is to be computed for an epoch, and its steps."""

    group_id: str
    epoch: int
    spec: GroupSpec
    steps: Generator[None, None, GroupAssignment]


def computation(
    group: ConsumerGroup,
    epoch: int,
    members: Mapping[str, ConsumerMember],
    topics: GroupTopics,
    default_assignor: str,
) -> Computation:
    """What is to be computed with these members, of which one may not be in the group yet."""
    spec = group_spec(group, members, topics)
    name = preferred_assignor(members.values()) or default_assignor
    return Computation(group.group_id, epoch, spec, ASSIGNORS[name](spec))


def preferred_assignor(members: Iterable[ConsumerMember]) -> str | None:
    """The one that most members name; between equals, Java's order decides."""
    votes = Counter(member.server_assignor for member in members if member.server_assignor)
    return max(map_order(votes, string_hash), key=votes.__getitem__, default=None)


def group_spec(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], topics: GroupTopics
) -> GroupSpec:
    assigned: dict[Uuid, set[int]] = {}
    for target in group.targets.values():
        for topic_id, numbers in target.items():
            assigned.setdefault(topic_id, set()).update(numbers)
    specs: dict[str, MemberSpec] = {}
    topic_ids: frozenset[Uuid] = frozenset()
    by_names: dict[frozenset[str], frozenset[Uuid]] = {}
    for member_id in map_order(members, string_hash):
        member = members[member_id]
        names = group.topics_of(member)
        if names not in by_names:
            by_names[names] = topics.topic_ids(names)
            topic_ids |= by_names[names]
        specs[member_id] = MemberSpec(
            member.instance_id, by_names[names], _previous_target(group, member)
        )
    used = {member.subscribed_topic_regex for member in members.values()}
    resolved = [found for regex, found in group.regexes.items() if regex in used]
    return GroupSpec(
        specs,
        is_homogeneous(members, resolved),
        assigned,
        {topic_id: topics.partition_count(topic_id) for topic_id in topic_ids},
    )


def _previous_target(group: ConsumerGroup, member: ConsumerMember) -> Assignment:
    """A static member that comes back under another id takes over what it was meant to have."""
    if member.member_id in group.members or member.instance_id is None:
        return group.target(member.member_id)
    return group.target_of(member)


def target_records(
    group: ConsumerGroup, epoch: int, spec: GroupSpec, found: GroupAssignment, now_ms: int
) -> Pieces[list[NewRecord]]:
    """Records of those members whose target has changed, and of the epoch."""
    targets = {member_id: found.get(member_id, {}) for member_id in spec.members}
    return CONSUMER_RECORDS.target_records(group, epoch, targets, now_ms)
