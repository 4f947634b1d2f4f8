"""Committed offsets: where groups are in the partitions they read.

An offset lives until its group overwrites or deletes it, its partition is deleted, or it expires
(`expiry`):

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

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import VERSION, RecordType, encode_key
from kaa.coordinators.timeline import TimelineDict
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.model.topics import NO_TIMESTAMP
from kaa.wire.messages.offsets_classic import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.timeline import Timeline
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.wire.primitives import Uuid

OFFSET_RECORD_TYPES: Final = (
    RecordType(LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    RecordType(OffsetCommitKey, OffsetCommitValue),
)
# With a time of its own to expire at, a value is written in the version that has the field.
_VALUE_VERSION: Final = 4
_EXPIRING_VALUE_VERSION: Final = 1

_PARTITION: Final = Struct(">i")
# A value of version 4 without metadata: version, offset, leader epoch, metadata, commit time.
_PLAIN_VALUE: Final = Struct(">hqibq")
_EMPTY_COMPACT_STRING: Final = 1
_NO_TAGS: Final = b"\0"
# One tagged field, number 0, of sixteen bytes.
_TOPIC_ID_TAG: Final = b"\1\0\x10"


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


def committed_offset(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
    """As the record at an offset of the log says."""
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )


class OffsetRecord(NamedTuple):
    """A committed offset as it is written. Commits are the most frequent records by far: this one
    is encoded and replayed without the messages that describe its bytes.
    """

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset
    # The key up to the partition, which all partitions of a topic share.
    key_start: bytes

    @property
    def key(self) -> OffsetCommitKey:
        return OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)

    @property
    def value_version(self) -> int:
        expires = self.committed.expire_timestamp_ms != NO_TIMESTAMP
        return _EXPIRING_VALUE_VERSION if expires else _VALUE_VERSION

    @property
    def value(self) -> OffsetCommitValue:
        committed = self.committed
        return OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        )

    def encode(self) -> tuple[bytes, bytes]:
        committed = self.committed
        key = self.key_start + _PARTITION.pack(self.partition)
        if committed.metadata or committed.expire_timestamp_ms != NO_TIMESTAMP:
            version = self.value_version
            return key, VERSION.pack(version) + self.value.encode(version)
        topic_id = committed.topic_id
        return key, _PLAIN_VALUE.pack(
            _VALUE_VERSION,
            committed.offset,
            committed.leader_epoch,
            _EMPTY_COMPACT_STRING,
            committed.commit_timestamp_ms,
        ) + (_NO_TAGS if topic_id == UUID_ZERO else _TOPIC_ID_TAG + topic_id)

    def replay(
        self, machine: GroupMachine, offset: int, producer_id: int, producer_epoch: int
    ) -> None:
        committed = self.committed._replace(record_offset=offset)
        machine.put_offset(self.group_id, (self.topic, self.partition), committed, producer_id)


def offset_key_start(group_id: str, topic: str) -> bytes:
    """The bytes of a key before its partition."""
    return encode_key(OffsetCommitKey(group=group_id, topic=topic, partition=0))[: -_PARTITION.size]


def offset_record(
    group_id: str, topic: str, partition: int, value: CommittedOffset
) -> OffsetRecord:
    return OffsetRecord(group_id, topic, partition, value, offset_key_start(group_id, topic))


def offset_tombstone(group_id: str, topic: str, partition: int) -> NewRecord:
    return NewRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


class Offsets:
    """The offsets of all groups of a shard."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        # By group. An entry without offsets means nothing; `tidy` drops it.
        self._by_group: dict[str, TimelineDict[PartitionName, CommittedOffset]] = {}
        # Of open transactions, by producer id, as above.
        self._pending: dict[int, TimelineDict[tuple[str, str, int], CommittedOffset]] = {}

    def of_group(self, group_id: str) -> TimelineDict[PartitionName, CommittedOffset] | None:
        return self._by_group.get(group_id)

    def tidy(self) -> None:
        """Drops groups without offsets, and transactions that have ended."""
        gone = [name for name, found in self._by_group.items() if not found and found.is_clean]
        for group_id in gone:
            del self._by_group[group_id]
        ended = [one for one, found in self._pending.items() if not found and found.is_clean]
        for producer_id in ended:
            del self._pending[producer_id]

    # --- replay

    def put(
        self, group_id: str, name: PartitionName, committed: CommittedOffset, producer_id: int = -1
    ) -> None:
        """Notes an offset, for the end of its transaction if it is of one."""
        if producer_id < 0:
            offsets = self._by_group.get(group_id)
            if offsets is None:
                offsets = self._by_group[group_id] = TimelineDict(self._timeline)
            offsets[name] = committed
        else:
            pending = self._pending.get(producer_id)
            if pending is None:
                pending = self._pending[producer_id] = TimelineDict(self._timeline)
            pending[group_id, *name] = committed

    def remove(self, key: OffsetCommitKey) -> None:
        offsets = self._by_group.get(key.group)
        if offsets is not None:
            offsets.pop((key.topic, key.partition))
        for pending in self._pending.values():
            pending.pop((key.group, key.topic, key.partition))

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> Iterator[None]:
        pending = self._pending.get(producer_id)
        if pending is None:
            return
        for count, name in enumerate(tuple(pending), 1):
            if count % RECORDS_PER_PIECE == 0:
                yield
            committed = pending.pop(name)
            if committed is None or not is_commit:
                continue
            group_id, topic, partition = name
            offsets = self._by_group.get(group_id)
            known = None if offsets is None else offsets.get((topic, partition))
            if known is None or committed.record_offset > known.record_offset:
                self.put(group_id, (topic, partition), committed)

    # --- questions

    def pending_of(self, group_id: str) -> set[PartitionName]:
        """Partitions whose offset an open transaction is about to change."""
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

    def tombstones_of_topics(self, topics: Iterable[str]) -> Pieces[list[NewRecord]]:
        """Records that remove the offsets of topics that are gone, also those that wait for the
        end of a transaction: it may come when there is another topic of that name.
        """
        gone = set(topics)
        found: dict[tuple[str, str, int], None] = {}
        for group_id, offsets in self._by_group.items():
            found |= {(group_id, *name): None for name in offsets if name[0] in gone}
            yield
        for pending in self._pending.values():
            found |= dict.fromkeys(name for name in pending if name[1] in gone)
            yield
        return (yield from mapped(lambda name: offset_tombstone(*name), found))
