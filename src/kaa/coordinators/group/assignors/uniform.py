"""The uniform assignor where all members subscribe to the same topics.

Everybody gets the same number of partitions, or one more where it does not come out even. First
each member keeps what it has, up to its share, and gives up the rest; the right to one partition
more goes to those that have one already, as long as enough members are left to take the others.
Then what nobody has is handed out to those that are below their share, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.java_order import integer_hash, map_order, set_order, uuid_hash
from kaa.limits import CONSUMER_GROUP_ASSIGNOR_STEP_PARTITIONS_MAX as _STEP

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from kaa.coordinators.group.assignors.table import Assignment, GroupAssignment, GroupSpec
    from kaa.wire.primitives import Uuid


def assign_homogeneous(spec: GroupSpec) -> Generator[None, None, GroupAssignment]:
    topic_ids = next(iter(spec.members.values())).topic_ids
    if not topic_ids:
        return {}
    unassigned: list[tuple[Uuid, int]] = []
    total = 0
    for topic_id in set_order(topic_ids, uuid_hash):
        count = spec.partition_counts[topic_id]
        taken = spec.assigned.get(topic_id, frozenset())
        for start in range(0, count, _STEP):
            yield
            some = range(start, min(start + _STEP, count))
            unassigned += [(topic_id, number) for number in some if number not in taken]
        total += count
    quota, extras_left = divmod(total, len(spec.members))
    result: GroupAssignment = {}
    # Members below their share, and by how much.
    unfilled: list[tuple[str, int]] = []
    members_left = len(spec.members)
    for member_id, member in spec.members.items():
        yield
        has_extra = extras_left > 0
        kept, given_up, space = yield from _keep(member.assignment, topic_ids, quota + has_extra)
        unassigned += given_up
        if space > 0 and has_extra and members_left > extras_left:
            # Somebody else may have the partition more already.
            space -= 1
            has_extra = False
        if space > 0:
            unfilled.append((member_id, space))
        extras_left -= has_extra
        members_left -= 1
        result[member_id] = kept
    position = 0
    for member_id, space in unfilled:
        added: dict[Uuid, list[int]] = {}
        end = position + space
        for start in range(position, end, _STEP):
            yield
            for topic_id, number in unassigned[start : min(start + _STEP, end)]:
                added.setdefault(topic_id, []).append(number)
        position = end
        kept = result[member_id]
        for count, (topic_id, numbers) in enumerate(added.items()):
            if count % _STEP == 0:
                yield
            kept[topic_id] = kept.get(topic_id, frozenset()).union(numbers)
    assert position >= len(unassigned), "partitions are left over"
    return result


def _keep(
    assignment: Mapping[Uuid, frozenset[int]], topic_ids: frozenset[Uuid], space: int
) -> Generator[None, None, tuple[Assignment, list[tuple[Uuid, int]], int]]:
    """What a member keeps, what it gives up to others, and how much space is left."""
    kept: Assignment = {}
    given_up: list[tuple[Uuid, int]] = []
    looked_at = 0
    for topic_id in map_order(assignment, uuid_hash):
        looked_at += len(assignment[topic_id])
        if looked_at >= _STEP:
            yield
            looked_at = 0
        if topic_id not in topic_ids:
            continue
        numbers = assignment[topic_id]
        if len(numbers) > space:
            ordered = set_order(sorted(numbers), integer_hash)
            given_up += [(topic_id, number) for number in ordered[space:]]
            numbers = frozenset(ordered[:space])
        space -= len(numbers)
        if numbers:
            kept[topic_id] = numbers
    return kept, given_up, space
