"""A snapshot of what was read of the metadata topic, so that a start does not read it all again.

| in | field | type | meaning |
|---|---|---|---|
| | magic | 7 bytes | "KAARLM" and a zero |
| | version | uint8 | 0 |
| | partitions | uint32 | of the topic when it was written |
| | states | uint32 | count, then for each |
| state | number | uint32 | metadata partition |
| state | position | uint64 | offset of the next record to apply |
| state | users | uint32 | count, then for each |
| user | topic id | 16 bytes | |
| user | partition | uint32 | |
| user | deletion | int8 | how far its deletion is; -1 for none |
| user | topic | uint16 | size, then the name |
| user | segments | uint32 | count, then for each |
| segment | size | uint32 | |
| segment | segment | | as in the topic (`records`), in the state it is in |
| user | epochs | uint32 | count, then for each |
| epoch | epoch | int32 | |
| epoch | highest | int64 | |
| epoch | referenced | uint32 | count, then for each |
| referenced | start | int64 | |
| referenced | segment | uint32 | its place in the list |
| epoch | unreferenced | uint32 | count, then for each |
| unreferenced | segment | uint32 | its place in the list |
| | crc | uint32 | CRC-32C of all before it |

One that is damaged, of another version or of a topic with another number of partitions counts as
none: then the topic is read from its start.

A node with years of history has millions of segments, so both ways are generators that stop after
some of them. What they read must not change meanwhile.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kaa.limits import TIER_METADATA_RECORDS_PER_TURN
from kaa.model.words import count_text
from kaa.records.checksum import crc32c
from kaa.tier.metadata.cache import EpochTable, RemoteLogCache
from kaa.tier.metadata.machine import MetadataPartition, UserKey, UserPartition
from kaa.tier.metadata.model import PartitionDeleteState, SegmentMetadata, TopicIdPartition
from kaa.tier.metadata.records import decode_event, encode_event
from kaa.wire.primitives import Uuid, WireError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

_HEAD: Final = struct.Struct(">7sBII")
_STATE: Final = struct.Struct(">IQI")
_USER: Final = struct.Struct(">16sIbH")
_EPOCH: Final = struct.Struct(">iq")
_REFERENCE: Final = struct.Struct(">qI")
_COUNT: Final = struct.Struct(">I")
_MAGIC: Final = b"KAARLM\0"
_VERSION: Final = 0
_NO_DELETION: Final = -1


class SnapshotError(ValueError):
    """The bytes are not a snapshot of this topic; the message says why."""


def encode_snapshot(
    partitions: int, states: Iterable[tuple[int, MetadataPartition]]
) -> Generator[None, None, bytearray]:
    """Returns the file that holds these metadata partitions."""
    chosen = list(states)
    out = bytearray(_HEAD.pack(_MAGIC, _VERSION, partitions, len(chosen)))
    for number, state in chosen:
        users = list(state.users.values())
        out += _STATE.pack(number, state.position, len(users))
        for user in users:
            yield from _write_user(out, user)
            yield
    out += _COUNT.pack(crc32c(out))
    return out


def _write_user(out: bytearray, user: UserPartition) -> Generator[None, None, None]:
    topic_id, topic, partition = user.partition
    name = topic.encode()
    deletion = _NO_DELETION if user.deletion is None else user.deletion
    out += _USER.pack(topic_id, partition, deletion, len(name)) + name
    segments = user.cache.segments()
    places = {segment.segment_id: place for place, segment in enumerate(segments)}
    out += _COUNT.pack(len(segments))
    for place, segment in enumerate(segments):
        data = encode_event(segment)
        out += _COUNT.pack(len(data)) + data
        if place % TIER_METADATA_RECORDS_PER_TURN == 0:
            yield
    tables = user.cache.tables()
    out += _COUNT.pack(len(tables))
    for table in tables:
        out += _EPOCH.pack(table.epoch, table.highest_offset) + _COUNT.pack(len(table.referenced))
        for start, segment_id in table.referenced:
            out += _REFERENCE.pack(start, places[segment_id])
        out += _COUNT.pack(len(table.unreferenced))
        for segment_id in table.unreferenced:
            out += _COUNT.pack(places[segment_id])


def decode_snapshot(
    data: bytes, partitions: int
) -> Generator[None, None, dict[int, MetadataPartition]]:
    """Returns the metadata partitions in a file; raises SnapshotError."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise SnapshotError("it is cut short")
    body = data[: -_COUNT.size]
    if crc32c(body) != _COUNT.unpack_from(data, len(body))[0]:
        raise SnapshotError("its checksum is wrong")
    magic, version, count, states = _HEAD.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION):
        raise SnapshotError("it is of another kind or version")
    if count != partitions:
        raise SnapshotError(
            f"the topic had {count_text(count, 'partition')} then, and has {partitions}"
        )
    try:
        return (yield from _Reader(body, _HEAD.size).states(states))
    except (struct.error, WireError, IndexError, ValueError) as error:
        raise SnapshotError(str(error)) from error


class _Reader:
    """Reads one part after the other."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._data, self._place)
        self._place += form.size
        return values

    def _count(self) -> int:
        return self._take(_COUNT)[0]

    def _bytes(self, size: int) -> bytes:
        self._place += size
        return self._data[self._place - size : self._place]

    def states(self, count: int) -> Generator[None, None, dict[int, MetadataPartition]]:
        found = {}
        for _ in range(count):
            number, position, users = self._take(_STATE)
            state = found[number] = MetadataPartition(position)
            for _ in range(users):
                user = yield from self._user()
                key = UserKey(user.partition.topic_id, user.partition.partition)
                state.users[key] = user
        return found

    def _user(self) -> Generator[None, None, UserPartition]:
        topic_id, partition, deletion, size = _USER.unpack_from(self._data, self._place)
        self._place += _USER.size
        name = self._bytes(size).decode()
        user = UserPartition(TopicIdPartition(Uuid(topic_id), name, partition))
        if deletion != _NO_DELETION:
            user.deletion = PartitionDeleteState(deletion)
        segments = []
        for place in range(self._count()):
            segments.append(self._segment())
            if place % TIER_METADATA_RECORDS_PER_TURN == 0:
                yield
        ids = [segment.segment_id for segment in segments]
        tables = [self._epoch(ids) for _ in range(self._count())]
        user.cache = RemoteLogCache.of(segments, tables)
        return user

    def _segment(self) -> SegmentMetadata:
        event = decode_event(self._bytes(self._count()))
        if not isinstance(event, SegmentMetadata):
            raise SnapshotError("an entry of it is not a segment")
        return event

    def _epoch(self, ids: list[Uuid]) -> EpochTable:
        epoch, highest_offset = self._take(_EPOCH)
        references = (self._take(_REFERENCE) for _ in range(self._count()))
        referenced = tuple((start, ids[place]) for start, place in references)
        unreferenced = tuple(ids[self._count()] for _ in range(self._count()))
        return EpochTable(epoch, highest_offset, referenced, unreferenced)
