from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kaa.tier.metadata.model import SegmentMetadata
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import MemoryStore, ObjectMissingError
from kaa.tier.store.segments import (
    DamagedObjectError,
    RemoteSegments,
    WrittenObject,
    checksum,
    decode_written,
    encode_written,
)
from tests.unit.tier.metadata.samples import segment

LOG = bytes(range(256)) * 10
PARTS: dict[Part, Path | bytes] = {
    Part.LOG: LOG,
    Part.OFFSET_INDEX: b"index",
    Part.TIME_INDEX: b"times",
    Part.TXN_INDEX: b"aborted",
    Part.PRODUCER_SNAPSHOT: b"producers",
    Part.LEADER_EPOCHS: b"epochs",
}


def copied() -> tuple[MemoryStore, RemoteSegments, SegmentMetadata]:
    store = MemoryStore()
    segments = RemoteSegments(store)
    custom = encode_written({part: checksum(data) for part, data in PARTS.items()})
    one = segment(1, 0, 99)._replace(size_bytes=len(LOG), custom_metadata=custom)
    asyncio.run(segments.copy(one, PARTS))
    return store, segments, one


def test_parts_come_back(tmp_path: Path) -> None:
    _, segments, one = copied()
    assert asyncio.run(segments.read_part(one, Part.OFFSET_INDEX)) == b"index"
    assert asyncio.run(segments.read_log(one, 250, 260)) == LOG[250:260]
    assert asyncio.run(segments.read_log(one, len(LOG) - 4, len(LOG) + 100)) == LOG[-4:]
    asyncio.run(segments.verify(one))
    file = tmp_path / "log"
    file.write_bytes(LOG)
    assert checksum(file) == checksum(LOG)


def test_the_log_is_written_last_and_deleted_first() -> None:
    store, segments, one = copied()
    assert list(store.objects)[-1] == object_name(one, Part.LOG)
    asyncio.run(segments.delete(one))
    assert store.objects == {}


def test_a_segment_without_aborted_transactions_has_no_index_of_them() -> None:
    _, segments, one = copied()
    without = one._replace(is_txn_index_empty=True)
    assert asyncio.run(segments.read_part(without, Part.TXN_INDEX)) is None
    # A JVM broker that left it out says so only by its absence.
    foreign = segment(2, 0, 9)
    assert asyncio.run(segments.read_part(foreign, Part.TXN_INDEX)) is None
    with pytest.raises(ObjectMissingError):
        asyncio.run(segments.read_part(foreign, Part.OFFSET_INDEX))


@pytest.mark.parametrize("part", [Part.OFFSET_INDEX, Part.LEADER_EPOCHS])
def test_damage_is_found(part: Part) -> None:
    store, segments, one = copied()
    name = object_name(one, part)
    store.objects[name] = b"x" + store.objects[name][1:]
    with pytest.raises(DamagedObjectError, match="checksum"):
        asyncio.run(segments.read_part(one, part))
    with pytest.raises(DamagedObjectError):
        asyncio.run(segments.verify(one))


def test_a_log_that_is_cut_short_is_found() -> None:
    store, segments, one = copied()
    store.objects[object_name(one, Part.LOG)] = LOG[:-1]
    with pytest.raises(DamagedObjectError, match="ends before"):
        asyncio.run(segments.read_log(one, 0, len(LOG)))
    with pytest.raises(DamagedObjectError):
        asyncio.run(segments.verify(one))
    store.objects[object_name(one, Part.LOG)] = b"x" + LOG[1:]
    with pytest.raises(DamagedObjectError):
        asyncio.run(segments.verify(one))


def test_what_was_written_is_kept_within_the_default_limit_of_custom_metadata() -> None:
    written = {part: WrittenObject(2**40, 2**32 - 1) for part in Part}
    data = encode_written(written)
    assert len(data) <= 128
    assert decode_written(data) == written
    for foreign in (None, b"", b"\x07", b"\x00\x01", data[:-1], b"\x00\x01" + b"\xff" * 13):
        assert decode_written(foreign) == {}
