"""Committed offsets: where groups are in the partitions they read.

An offset lives until its group overwrites or deletes it, its partition is deleted, or it expires:

- with a consumer group that has members and reads other topics now: its retention after it was
  committed;
- with a group whose members are all gone: the retention after the last one left;
- with a group that never had members: the retention after it was committed;
- with a time of its own, given by clients of old versions: at that time.

Offsets committed within a transaction wait beside the others until the transaction ends. They count
when it commits, unless a later offset was committed in the meantime: what counts is the order of
the records in the log, since compaction may remove an older one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.coordinators.group.classic_group import ClassicGroupState
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.timeline import TimelineDict
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.coordinators.group.classic_group import ClassicGroup
    from kaa.coordinators.timeline import Timeline
    from kaa.wire.primitives import Uuid

# With a time of its own to expire at, a value is written in the version that has the field.
_VALUE_VERSION: Final = 4
_EXPIRING_VALUE_VERSION: Final = 1
NO_TIMESTAMP: Final = -1

PartitionName = tuple[str, int]


class CommittedOffset(NamedTuple):
    """A position in a partition. `record_offset` is where the log says so."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: Uuid = UUID_ZERO
    record_offset: int = -1

    def has_expired(self, base_ms: int, now_ms: int, retention_ms: int) -> bool:
        if self.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= self.expire_timestamp_ms
        return now_ms - base_ms >= retention_ms


def offset_record(group_id: str, topic: str, partition: int, value: CommittedOffset) -> NewRecord:
    expires = value.expire_timestamp_ms != NO_TIMESTAMP
    return NewRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp=value.commit_timestamp_ms,
            expire_timestamp=value.expire_timestamp_ms,
            topic_id=value.topic_id,
        ),
        _EXPIRING_VALUE_VERSION if expires else _VALUE_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> NewRecord:
    return NewRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


class Offsets:
    """The offsets of all groups of a shard."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        # By group. An entry without offsets means nothing; `tidy` drops it.
        self._by_group: dict[str, TimelineDict[PartitionName, CommittedOffset]] = {}
        # Of open transactions, by producer id.
        self._pending: TimelineDict[int, dict[tuple[str, str, int], CommittedOffset]] = (
            TimelineDict(timeline)
        )

    def of_group(self, group_id: str) -> TimelineDict[PartitionName, CommittedOffset] | None:
        return self._by_group.get(group_id)

    def tidy(self) -> None:
        """Drops groups without offsets."""
        gone = [name for name, found in self._by_group.items() if not found and found.is_clean]
        for group_id in gone:
            del self._by_group[group_id]

    # --- replay

    def replay(
        self,
        record_offset: int,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        producer_id: int,
    ) -> None:
        if value is None:
            self._remove(key)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        if producer_id < 0:
            self._put(key.group, (key.topic, key.partition), committed)
        else:
            # Values of a timeline are replaced, never changed.
            pending = dict(self._pending.get(producer_id) or {})
            pending[key.group, key.topic, key.partition] = committed
            self._pending[producer_id] = pending

    def _put(self, group_id: str, name: PartitionName, committed: CommittedOffset) -> None:
        offsets = self._by_group.get(group_id)
        if offsets is None:
            offsets = self._by_group[group_id] = TimelineDict(self._timeline)
        offsets[name] = committed

    def _remove(self, key: OffsetCommitKey) -> None:
        offsets = self._by_group.get(key.group)
        if offsets is not None:
            offsets.pop((key.topic, key.partition))
        name = (key.group, key.topic, key.partition)
        for producer_id, pending in tuple(self._pending.items()):
            if name in pending:
                self._pending[producer_id] = {
                    one: offset for one, offset in pending.items() if one != name
                }

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self._pending.pop(producer_id)
        if pending is None or not is_commit:
            return
        for (group_id, topic, partition), committed in pending.items():
            offsets = self._by_group.get(group_id)
            known = None if offsets is None else offsets.get((topic, partition))
            if known is None or committed.record_offset > known.record_offset:
                self._put(group_id, (topic, partition), committed)

    # --- questions

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction is about to change the offset."""
        name = (group_id, topic, partition)
        return any(name in pending for pending in self._pending.values())

    def pending_of(self, group_id: str) -> set[PartitionName]:
        return {
            (topic, partition)
            for pending in self._pending.values()
            for group, topic, partition in pending
            if group == group_id
        }

    # --- removals

    def tombstones(self, group_id: str) -> Iterator[NewRecord]:
        """Records that remove everything of a group."""
        offsets = self._by_group.get(group_id)
        names = set() if offsets is None else set(offsets)
        for topic, partition in sorted(names | self.pending_of(group_id)):
            yield offset_tombstone(group_id, topic, partition)

    def tombstones_of_topics(self, topics: Iterable[str]) -> Iterator[NewRecord]:
        """Records that remove the offsets of topics that are gone."""
        gone = set(topics)
        for group_id, offsets in self._by_group.items():
            for topic, partition in offsets:
                if topic in gone:
                    yield offset_tombstone(group_id, topic, partition)

    def expired(
        self, group: ClassicGroup, now_ms: int, retention_ms: int
    ) -> tuple[list[NewRecord], bool]:
        """Records that remove what has expired, and whether nothing is left then."""
        offsets = self._by_group.get(group.group_id)
        pending = self.pending_of(group.group_id)
        if not offsets:
            return [], not pending
        is_empty = group.is_in(ClassicGroupState.EMPTY)
        if group.protocol_type is not None and not is_empty:
            is_known = group.uses_consumer_protocol and group.subscribed_topics is not None
            if not is_known or not group.is_in(ClassicGroupState.STABLE):
                return [], False
        since_ms = (
            group.state_timestamp_ms if group.protocol_type is not None and is_empty else None
        )
        records = []
        for (topic, partition), committed in offsets.items():
            base_ms = committed.commit_timestamp_ms if since_ms is None else since_ms
            if (
                not group.is_subscribed_to(topic)
                and committed.has_expired(base_ms, now_ms, retention_ms)
                and (topic, partition) not in pending
            ):
                records.append(offset_tombstone(group.group_id, topic, partition))
        return records, len(records) == len(offsets) and not pending
