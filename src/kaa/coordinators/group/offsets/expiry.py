"""Offsets whose time is up: committed too long ago, for topics that their group does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.offsets.committed import offset_tombstone
from kaa.limits import RECORDS_PER_PIECE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.coordinators.group.consumer.group import ConsumerGroup
    from kaa.coordinators.group.offsets.committed import Offsets
    from kaa.coordinators.group.streams.group import StreamsGroup
    from kaa.coordinators.machine import NewRecord
    from kaa.model.pieces import Pieces


def expired_offsets(
    group: ClassicGroup | ConsumerGroup | StreamsGroup,
    offsets: Offsets,
    now_ms: int,
    retention_ms: int,
) -> Pieces[tuple[list[NewRecord], bool]]:
    """Records that remove what has expired, and whether nothing is left then."""
    committed = offsets.of_group(group.group_id)
    pending = offsets.pending_of(group.group_id)
    if not committed:
        return [], not pending
    # Since when the group reads nothing any more; None if each offset counts from its commit.
    since_ms: int | None = None
    is_read: Callable[[str], bool]
    if isinstance(group, ClassicGroup):
        is_empty = group.is_in(ClassicGroupState.EMPTY)
        if group.protocol_type is not None and not is_empty:
            is_known = group.uses_consumer_protocol and group.subscribed_topics is not None
            if not is_known or not group.is_in(ClassicGroupState.STABLE):
                return [], False
        elif group.protocol_type is not None:
            since_ms = group.state_timestamp_ms
        is_read = group.is_subscribed_to
    else:
        is_read = group.subscribed_topics().__contains__
    records: list[NewRecord] = []
    for count, (key, offset) in enumerate(committed.items(), 1):
        if count % RECORDS_PER_PIECE == 0:
            yield
        counts_from_ms = offset.commit_timestamp_ms if since_ms is None else since_ms
        if (
            not is_read(key[0])
            and offset.has_expired(counts_from_ms, now_ms, retention_ms)
            and key not in pending
        ):
            records.append(offset_tombstone(group.group_id, *key))
    return records, len(records) == len(committed) and not pending
