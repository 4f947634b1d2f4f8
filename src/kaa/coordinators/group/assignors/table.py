"""Server-side assignors: who of a consumer group reads which partition.

An assignor is a function of a `GroupSpec`, which says what members subscribe to and what they were
meant to have so far. `range` gives every member a contiguous range of each topic it subscribes to;
`uniform` gives everybody the same number of partitions, and leaves as much as possible where it is
(`uniform` where all members subscribe to the same topics, `heterogeneous` where
they do not). None of them looks at racks: Kafka's do not either, since KIP-881 was not carried over
to the server.

The functions are generators, so that the assignment of a big group can be computed in slices: they
yield now and then, and return the assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.coordinators.group.assignors.heterogeneous import assign_heterogeneous
from kaa.coordinators.group.assignors.uniform import assign_homogeneous
from kaa.coordinators.group.java_order import java_string_order

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from collections.abc import Set as AbstractSet

    from kaa.wire.primitives import Uuid

# What a member has or is to have: numbers of partitions by topic id.
Assignment = dict["Uuid", frozenset[int]]
# The assignment of every member by its id; a member that has nothing may be missing.
GroupAssignment = dict[str, Assignment]


class MemberSpec(NamedTuple):
    """A member as an assignor sees it."""

    instance_id: str | None
    # Topics that exist and that it subscribes to.
    topic_ids: frozenset[Uuid]
    # What it was meant to have so far.
    assignment: Mapping[Uuid, frozenset[int]]


class GroupSpec(NamedTuple):
    """A group as an assignor sees it."""

    # In the order of `java_order.map_order`.
    members: Mapping[str, MemberSpec]
    # Whether all members subscribe to the same topics.
    is_homogeneous: bool
    # What members have been assigned so far, also those that are gone.
    assigned: Mapping[Uuid, AbstractSet[int]]
    partition_counts: Mapping[Uuid, int]

    @property
    def work(self) -> int:
        """About how many steps an assignor will need."""
        partitions = sum(self.partition_counts.values())
        topics = sum(len(member.topic_ids) for member in self.members.values())
        return len(self.members) + partitions + topics


def assign_range(spec: GroupSpec) -> Generator[None, None, GroupAssignment]:
    """Gives each member a contiguous range of every topic that it subscribes to. Static members
    come first, by their instance ids.
    """
    members = sorted(spec.members.items(), key=_range_order)
    subscribers: dict[Uuid, int] = {}
    for _, member in members:
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    next_partition = dict.fromkeys(subscribers, 0)
    # Members that still get one partition more than the others.
    with_extra = {
        topic_id: spec.partition_counts[topic_id] % count for topic_id, count in subscribers.items()
    }
    result: GroupAssignment = {}
    for member_id, member in members:
        yield
        assignment = result[member_id] = {}
        for topic_id in member.topic_ids:
            start = next_partition[topic_id]
            end = start + spec.partition_counts[topic_id] // subscribers[topic_id]
            if with_extra[topic_id] > 0:
                with_extra[topic_id] -= 1
                end += 1
            next_partition[topic_id] = end
            if start < end:
                assignment[topic_id] = frozenset(range(start, end))
    return result


def _range_order(item: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = item
    is_dynamic = member.instance_id is None
    name = member_id if member.instance_id is None else member.instance_id
    return is_dynamic, java_string_order(name)


def assign_uniform(spec: GroupSpec) -> Generator[None, None, GroupAssignment]:
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return (yield from assign_homogeneous(spec))
    return (yield from assign_heterogeneous(spec))


ASSIGNORS: Final[dict[str, Callable[[GroupSpec], Generator[None, None, GroupAssignment]]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
