"""Logs with batches of magic 0 and 1, as a Kafka before 0.11 left them."""

from __future__ import annotations

from contextlib import closing

import pytest

from kaa.limits import SCAN_WINDOW_BYTES, SEEK_WINDOW_BYTES
from kaa.log.append import append_as_leader
from kaa.log.compaction import Compaction, CompactionRange
from kaa.log.files import write_new
from kaa.log.log import UnifiedLog
from kaa.log.lookup import MAX_TIMESTAMP, TimestampAndOffset
from kaa.log.names import LOG_SUFFIX, file_name, folder_name
from kaa.log.scan import BatchExtent, StoredLegacyBatch, find_batch, iter_headers, iter_valid
from kaa.log.sim_files import SimFiles
from kaa.log.truncation import truncate_to
from kaa.records.batch import CompressionType, RecordBatch
from kaa.records.compaction import OffsetMap
from kaa.records.errors import CorruptRecordsError
from kaa.records.legacy import LegacyBatch, iter_any_batches, iter_legacy_records
from kaa.records.record import iter_records
from tests.unit.log.batches import batch
from tests.unit.log.logs import PARTITION, ROOT, fetch_offset, new_disk, reload, run_jobs
from tests.unit.records.test_legacy import message, wrapped

FOLDER = f"{ROOT}/{folder_name(PARTITION)}"
GZIP = CompressionType.GZIP


def mixed() -> bytes:
    """Offsets 0 to 7: magic 0, magic 1, compressed magic 0 and 1, and a batch of our own."""
    return b"".join(
        (
            message(0, 0, b"a", b"0"),
            message(1, 1, b"b", b"1", timestamp=10),
            wrapped(0, GZIP, 3, message(0, 2, b"a", b"2") + message(0, 3, b"c", b"3")),
            wrapped(1, GZIP, 5, message(1, 0, b"b", b"4", 98) + message(1, 1, b"d", b"5", 99)),
            batch([(b"a", b"6"), (b"e", b"7")], base_offset=6, timestamp=200),
        )
    )


def old_log(*segments: tuple[int, bytes], clean: bool = False) -> tuple[SimFiles, UnifiedLog]:
    """A log that is found on disk, with segments by base offset."""
    files = new_disk()
    files.make_directory(FOLDER)
    for base_offset, content in segments:
        write_new(files, f"{FOLDER}/{file_name(base_offset, LOG_SUFFIX)}", content)
    log = reload(files, clean=clean)
    log.update_high_watermark(log.log_end_offset)
    return files, log


def read(log: UnifiedLog, offset: int, bytes_max: int = 1_000_000) -> bytes:
    region = log.read(offset, bytes_max=bytes_max).region
    assert region is not None
    try:
        return region.read()
    finally:
        region.release()


def pairs(log: UnifiedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for each in iter_any_batches(read(log, offset)):
            records = (
                iter_legacy_records(each) if isinstance(each, LegacyBatch) else iter_records(each)
            )
            found += [(record.offset, record.key, record.value) for record in records]
            offset = each.last_offset + 1
    return found


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_of_all_magics_is_recovered_and_read(clean: bool) -> None:
    _, log = old_log((0, mixed()), clean=clean)
    assert log.log_end_offset == 8
    assert read(log, 0) == mixed()
    assert [value for _, _, value in pairs(log)] == [b"%d" % n for n in range(8)]
    # Within a compressed batch reading starts with the whole of it.
    (first, *_) = iter_any_batches(read(log, 4))
    assert (first.magic, first.last_offset) == (1, 5)
    (only,) = iter_any_batches(read(log, 0, bytes_max=1))
    assert only.last_offset == 0


def test_new_batches_follow_old_ones() -> None:
    files, log = old_log((0, mixed()))
    append_as_leader(log, batch(2), leader_epoch=3, now_ms=0)
    log.close_cleanly(0)
    again = reload(files, clean=True)
    assert again.log_end_offset == 10
    again.update_high_watermark(10)
    assert [offset for offset, _, _ in pairs(again)] == list(range(10))


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(cut: int) -> None:
    whole = message(0, 0, b"k", b"v") * 1 + message(1, 1, b"k", b"v" * 100)
    _, log = old_log((0, whole[:-cut]))
    assert log.log_end_offset == 1
    assert read(log, 0) == message(0, 0, b"k", b"v")


@pytest.mark.parametrize("position", range(16, 30))
def test_a_flipped_bit_ends_the_log(position: int) -> None:
    first = message(1, 0, b"k", b"v")
    second = bytearray(message(1, 1, b"k", b"v"))
    second[position] ^= 4
    _, log = old_log((0, first + second))
    assert log.log_end_offset == 1


def test_times_are_found() -> None:
    _, log = old_log((0, mixed()))
    assert fetch_offset(log, 5) == TimestampAndOffset(10, 1, None)
    assert fetch_offset(log, 99) == TimestampAndOffset(99, 5, None)
    assert fetch_offset(log, 100) == TimestampAndOffset(200, 6, 0)
    assert fetch_offset(log, MAX_TIMESTAMP) == TimestampAndOffset(201, 7, 0)


def test_truncation_keeps_whole_batches() -> None:
    _, log = old_log((0, mixed()))
    assert truncate_to(log, 6, now_ms=0)
    assert log.log_end_offset == 6
    assert [value for _, _, value in pairs(log)] == [b"%d" % n for n in range(6)]


def compact(log: UnifiedLog) -> None:
    end = log.segments.active.base_offset
    compaction = Compaction(log, CompactionRange(0, end), OffsetMap(10_000, bytes(16)), 0)
    with closing(compaction.run()) as jobs:
        for job in jobs:
            run_jobs([job], 0)


def test_compaction_writes_batches_of_our_own() -> None:
    files, log = old_log((0, mixed()), (8, bytes(batch(1, base_offset=8))))
    compact(log)
    assert [offset for offset, _, _ in pairs(log)] == [3, 4, 5, 6, 7, 8]
    first = log.segments.first
    assert {found.magic for found in first.batches_from(0)} == {2}
    log.close_cleanly(0)
    again = reload(files, clean=True)
    again.update_high_watermark(9)
    assert [offset for offset, _, _ in pairs(again)] == [3, 4, 5, 6, 7, 8]


def test_compaction_does_not_hide_damage() -> None:
    damaged = bytearray(mixed())
    damaged[20] ^= 1
    _, log = old_log((0, bytes(damaged)), (8, bytes(batch(1, base_offset=8))), clean=True)
    with pytest.raises(CorruptRecordsError):
        compact(log)


@pytest.mark.parametrize("value_bytes", [1, SEEK_WINDOW_BYTES, SCAN_WINDOW_BYTES + 5])
@pytest.mark.parametrize("magic", [0, 1])
def test_walks(magic: int, value_bytes: int) -> None:
    messages = [message(magic, n, None, bytes([n]) * value_bytes, n) for n in range(4)]
    files = new_disk()
    write_new(files, f"{ROOT}/a", b"".join(messages))
    file = files.open(f"{ROOT}/a")
    size, end = len(messages[0]), 4 * len(messages[0])
    assert find_batch(file, 0, end, 2) == BatchExtent(2 * size, size, 2, 2)
    found = list(iter_valid(file, 0, end))
    assert [each.last_offset for each in found] == [0, 1, 2, 3]
    assert [each.max_timestamp for each in found] == ([0, 1, 2, 3] if magic else [-1] * 4)
    last = found[-1]
    assert isinstance(last, StoredLegacyBatch)
    assert bytes(last.load(file).view) == messages[3]
    # The last byte is missing, and then one more message than there is.
    assert len(list(iter_headers(file, 0, end - 1))) == 3


@pytest.mark.parametrize("magic", [3, 100, 255])
def test_no_such_magic(magic: int) -> None:
    content = bytearray(batch(1))
    content[16] = magic
    files = new_disk()
    write_new(files, f"{ROOT}/a", bytes(content))
    file = files.open(f"{ROOT}/a")
    with pytest.raises(CorruptRecordsError):
        list(iter_headers(file, 0, len(content)))
    with pytest.raises(CorruptRecordsError):
        find_batch(file, 0, len(content), 0)


def test_a_length_below_that_of_any_batch() -> None:
    content = bytearray(message(0, 0, b"k", b"v"))
    content[8:12] = (13).to_bytes(4, "big")
    files = new_disk()
    write_new(files, f"{ROOT}/a", bytes(content))
    file = files.open(f"{ROOT}/a")
    with pytest.raises(CorruptRecordsError):
        list(iter_headers(file, 0, len(content)))
    assert list(iter_valid(file, 0, len(content))) == []


def test_upgraded_batches_keep_their_records() -> None:
    _, log = old_log((0, mixed()), (8, bytes(batch(1, base_offset=8))))
    compact(log)
    (first, *_) = iter_any_batches(read(log, 0))
    assert isinstance(first, RecordBatch)
    (record,) = iter_records(first)
    assert (record.offset, record.key, record.value, record.timestamp) == (3, b"c", b"3", -1)
