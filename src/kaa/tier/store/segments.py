"""A segment as a set of objects: copied whole, read in ranges, deleted whole.

The log goes last, so that a segment whose log is there is complete. What `copy` returns is kept
with the metadata of the segment (Kafka's "custom metadata") and says what was written:

| field | type | meaning |
|---|---|---|
| version | uint8 | 0 |
| count | uint8 | of parts; then for each |
| part | uint8 | its place in `Part` |
| size | uint64 | bytes |
| crc | uint32 | CRC-32C of the whole object |

A small part is compared with it whenever it is read. The log is read in ranges, whose batches have
checksums of their own; `verify` compares it as a whole. A segment that a JVM broker copied has no
such list, and its parts are taken as they are.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import TIER_READ_BYTES
from kaa.records.checksum import crc32c
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import ObjectMissingError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kaa.tier.metadata.model import SegmentMetadata
    from kaa.tier.store.objects import ObjectStore

_VERSION: Final = 0
_HEAD: Final = struct.Struct(">BB")
_ENTRY: Final = struct.Struct(">BQI")
_PARTS: Final = tuple(Part)


class DamagedObjectError(StoreError):
    """An object does not hold what was written to it."""


class WrittenObject(NamedTuple):
    """What an object holds."""

    size_bytes: int
    crc: int


def encode_written(parts: Mapping[Part, WrittenObject]) -> bytes:
    entries = (
        _ENTRY.pack(_PARTS.index(part), written.size_bytes, written.crc)
        for part, written in parts.items()
    )
    return _HEAD.pack(_VERSION, len(parts)) + b"".join(entries)


def decode_written(data: bytes | None) -> dict[Part, WrittenObject]:
    """Empty where somebody else wrote the segment."""
    if data is None or len(data) < _HEAD.size:
        return {}
    version, count = _HEAD.unpack_from(data)
    if version != _VERSION or len(data) != _HEAD.size + count * _ENTRY.size:
        return {}
    found = {}
    for number, size_bytes, crc in _ENTRY.iter_unpack(data[_HEAD.size :]):
        if number >= len(_PARTS):
            return {}
        found[_PARTS[number]] = WrittenObject(size_bytes, crc)
    return found


def checksum(source: Path | bytes) -> WrittenObject:
    """Reads the whole source; a large file belongs off the loop."""
    if isinstance(source, bytes):
        return WrittenObject(len(source), crc32c(source))
    size = crc = 0
    with source.open("rb") as file:
        while data := file.read(TIER_READ_BYTES):
            size += len(data)
            crc = crc32c(data, crc)
    return WrittenObject(size, crc)


class RemoteSegments:
    """Copies, reads and deletes remote segments in a store. A part that is not what was written
    raises DamagedObjectError.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    async def copy(self, segment: SegmentMetadata, parts: Mapping[Part, Path | bytes]) -> None:
        """Writes every part; what an earlier attempt left under these names is overwritten."""
        for part in (*(one for one in parts if one is not Part.LOG), Part.LOG):
            await self.store.put(object_name(segment, part), parts[part])

    async def read_log(self, segment: SegmentMetadata, start: int, end: int) -> bytes:
        """Bytes of the log from `start` up to `end`; fewer only at its end."""
        end = min(end, segment.size_bytes)
        data = await self.store.get_range(object_name(segment, Part.LOG), start, end)
        if len(data) != max(0, end - start):
            raise DamagedObjectError(
                f"{object_name(segment, Part.LOG)} ends before byte {end} of {segment.size_bytes}"
            )
        return data

    async def read_part(self, segment: SegmentMetadata, part: Part) -> bytes | None:
        """A small part whole, compared with what was written; None for one that is left out."""
        if part is Part.TXN_INDEX and segment.is_txn_index_empty:
            return None
        name = object_name(segment, part)
        try:
            data = await self.store.get(name)
        except ObjectMissingError:
            if part is Part.TXN_INDEX and part not in decode_written(segment.custom_metadata):
                return None
            raise
        compare(segment, part, data)
        return data

    async def verify(self, segment: SegmentMetadata) -> None:
        """Reads every part in bounded pieces and compares it; raises StoreError."""
        written = decode_written(segment.custom_metadata)
        for part in written or (Part.LOG,):
            name = object_name(segment, part)
            size, crc = await self.store.size(name), 0
            for start in range(0, size, TIER_READ_BYTES):
                end = min(size, start + TIER_READ_BYTES)
                crc = crc32c(await self.store.get_range(name, start, end), crc)
            if part is Part.LOG and size != segment.size_bytes:
                raise DamagedObjectError(f"{name} has {size} bytes, not {segment.size_bytes}")
            _compare(name, WrittenObject(size, crc), segment, part)

    async def delete(self, segment: SegmentMetadata) -> None:
        """Deletes every part, the log first: what is left of a segment cannot be read."""
        await self.store.delete(object_name(segment, part) for part in Part)


def compare(segment: SegmentMetadata, part: Part, data: bytes) -> None:
    """Whether a part is what was written, where that is known; raises DamagedObjectError."""
    _compare(object_name(segment, part), WrittenObject(len(data), crc32c(data)), segment, part)


def _compare(name: str, found: WrittenObject, segment: SegmentMetadata, part: Part) -> None:
    expected = decode_written(segment.custom_metadata).get(part, found)
    if found != expected:
        raise DamagedObjectError(
            f"{name} has {found.size_bytes} bytes with checksum {found.crc:08x}, "
            f"not {expected.size_bytes} with {expected.crc:08x}"
        )
