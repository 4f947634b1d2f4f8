"""The assignor of share groups: every partition is read by somebody, every member reads something.

Partitions are shared, so there is nothing to give up and nothing to wait for. With at least as many
partitions as members each partition has one member; with more members than partitions each member
has one partition. Members with other subscriptions are counted topic by topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.java_order import java_string_order
from kaa.limits import GROUP_PARTITIONS_PER_PIECE, RECORDS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid


def assign_shared(
    subscriptions: Mapping[str, AbstractSet[Uuid]], partitions: Mapping[Uuid, AbstractSet[int]]
) -> Pieces[dict[str, dict[Uuid, frozenset[int]]]]:
    """Partitions by member and topic; `partitions` has those that can be read."""
    assigned: dict[str, dict[Uuid, set[int]]] = {member: {} for member in subscriptions}
    by_topics: dict[frozenset[Uuid], list[str]] = {}
    is_uniform = len({frozenset(one) for one in subscriptions.values()}) == 1
    is_large = len(partitions) > RECORDS_PER_PIECE
    if is_large:
        yield
    for member_id in sorted(subscriptions, key=java_string_order):
        topics = frozenset(subscriptions[member_id])
        if is_uniform:
            by_topics.setdefault(topics, []).append(member_id)
            continue
        for topic_id in topics:
            by_topics.setdefault(frozenset({topic_id}), []).append(member_id)
        if is_large:
            yield
    count = 0
    for topics, members in by_topics.items():
        found = [
            (topic_id, number)
            for topic_id in sorted(topics)
            for number in sorted(partitions.get(topic_id, ()))
        ]
        if not found:
            continue
        if len(found) > RECORDS_PER_PIECE:
            yield
        for place in range(max(len(found), len(members))):
            topic_id, number = found[place % len(found)]
            member_id = members[place % len(members)]
            assigned[member_id].setdefault(topic_id, set()).add(number)
            count += 1
            if count % GROUP_PARTITIONS_PER_PIECE == 0:
                yield
    if is_large:
        yield
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in owned.items()}
        for member_id, owned in assigned.items()
    }
