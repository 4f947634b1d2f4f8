"""One segment: appending and indexing, finding, reading under references, damage, truncation."""

from __future__ import annotations

from dataclasses import replace
from struct import pack

import pytest

from kaa.log.config import LogConfig
from kaa.log.dirs import LogDirectory
from kaa.log.errors import StorageError
from kaa.log.segment import Segment, SegmentRegion
from kaa.log.sim_files import Fault, SimFiles
from kaa.records.batch import RecordBatch
from kaa.records.errors import CorruptRecordsError
from tests.unit.log.batches import batch

BASE = 100
CONFIG = LogConfig(index_interval_bytes=200)


def _files() -> SimFiles:
    files = SimFiles()
    files.make_directory("/d")
    return files


def _segment(files: SimFiles, config: LogConfig = CONFIG) -> Segment:
    return Segment.create(files, "/d", BASE, config)


def _append(segment: Segment, content: bytearray) -> None:
    segment.write([content])
    view = RecordBatch(content)
    segment.commit(((view.last_offset, view.max_timestamp, view.size_in_bytes),))


def _filled(files: SimFiles, count: int = 40, config: LogConfig = CONFIG) -> Segment:
    """Batches of three records from offset 100 on, timestamps 1000, 1010, ..."""
    segment = _segment(files, config)
    for n in range(count):
        _append(segment, batch(3, base_offset=BASE + 3 * n, timestamp=1000 + 10 * n))
    return segment


def _reloaded(files: SimFiles, segment: Segment) -> Segment:
    segment.seal()
    segment.close()
    return Segment.load(files, "/d", BASE, CONFIG)


def test_files_have_kafkas_names() -> None:
    files = _files()
    _segment(files)
    assert files.list_directory("/d") == [
        "00000000000000000100.index",
        "00000000000000000100.log",
        "00000000000000000100.timeindex",
    ]


@pytest.mark.parametrize("reload", [False, True])
def test_every_offset_is_found(reload: bool) -> None:
    files = _files()
    segment = _filled(files)
    size = segment.size // 40
    if reload:
        segment = _reloaded(files, segment)
    assert segment.offset_index.entries > 5
    for offset in range(BASE - 5, BASE + 120):
        extent = segment.locate(offset)
        assert extent is not None
        number = max(0, offset - BASE) // 3
        assert extent.position == number * size
        assert extent.base_offset == BASE + 3 * number
    assert segment.locate(BASE + 120) is None
    assert segment.read_next_offset() == BASE + 120


def test_an_index_entry_holds_last_offset_and_start_of_a_batch() -> None:
    segment = _filled(_files(), 10)
    size = segment.size // 10
    every = 200 // size + 1
    relative, position = segment.offset_index.entry(0)
    assert (relative, position) == (3 * every + 2, every * size)


def test_reading_stops_at_whole_batches() -> None:
    segment = _filled(_files())
    size = segment.size // 40
    assert segment.end_of_batches(0, segment.size, segment.size) == segment.size
    assert segment.end_of_batches(0, 10 * size, segment.size) == 10 * size
    assert segment.end_of_batches(0, 10 * size + 1, segment.size) == 10 * size
    assert segment.end_of_batches(3 * size, 10 * size - 1, segment.size) == 12 * size
    assert segment.end_of_batches(3 * size, size - 1, segment.size) == 3 * size
    assert segment.end_of_batches(3 * size, 99 * size, 7 * size) == 7 * size


def test_readers_keep_the_file_open() -> None:
    files = _files()
    segment = _filled(files)
    region = SegmentRegion(LogDirectory(files, "/d"), segment, 0, segment.size // 40)
    segment.rename(".deleted")
    segment.delete()
    assert files.list_directory("/d") == []
    assert files.open_handles > 0
    assert RecordBatch(region.read()).base_offset == BASE
    assert region.descriptor == -1
    region.release()
    assert files.open_handles == 0


def test_a_region_that_cannot_be_read_takes_its_directory_offline() -> None:
    files = _files()
    segment = _filled(files)
    directory = LogDirectory(files, "/d")
    region = SegmentRegion(directory, segment, 0, segment.size)
    buffer = memoryview(bytearray(segment.size))
    region.read_into(buffer)
    assert buffer == region.read()
    files.faults = [Fault("read", ".log", times=2)]
    with pytest.raises(StorageError, match="Input/output error"):
        region.read(10, 5)
    assert not directory.is_online
    with pytest.raises(StorageError):
        region.read_into(buffer)
    region.release()
    assert segment.references == 0


def test_a_resting_segment_opens_again() -> None:
    files = _files()
    segment = _filled(files)
    segment.rest()
    assert files.open_handles == 0
    extent = segment.locate(BASE + 7)
    assert extent is not None
    assert extent.base_offset == BASE + 6


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_damaged_indexes_are_built_anew(suffix: str, damage: str) -> None:
    files = _files()
    path = f"/d/00000000000000000100{suffix}"
    segment = _filled(files)
    segment.seal()
    segment.close()
    good = files.open(path).read(10**6, 0)
    for position in range(len(good)) if damage == "flipped" else [0]:
        if damage == "missing":
            files.unlink(path)
        elif damage == "cut":
            files.open(path).truncate(len(good) - 1)
        else:
            files.create(path).write([good], 0)
            files.flip_bits(path, position)
        segment = Segment.load(files, "/d", BASE, CONFIG)
        for offset in range(BASE, BASE + 120, 7):
            extent = segment.locate(offset)
            assert extent is not None
            assert extent.base_offset <= offset <= extent.last_offset
        for timestamp in range(1000, 1400, 35):
            found = segment.find_by_timestamp(timestamp, BASE)
            assert found is not None
            assert found.max_timestamp - 12 < timestamp <= found.max_timestamp
        segment.close()


@pytest.mark.parametrize(
    ("suffix", "entry"),
    [
        (".index", pack(">ii", 122, 50_000_000)),
        (".index", pack(">ii", 122, 200)),
        (".index", pack(">ii", -5, 0)),
        (".index", pack(">ii", 122, -1)),
        (".timeindex", pack(">qi", 99_000, 119)),
        (".timeindex", pack(">qi", 1390, 500)),
        (".timeindex", pack(">qi", 3, 5)),
    ],
)
def test_end_and_times_of_a_segment_are_not_taken_from_a_damaged_index(
    suffix: str, entry: bytes
) -> None:
    files = _files()
    segment = _filled(files)
    segment.seal()
    segment.close()
    path = f"/d/00000000000000000100{suffix}"
    good = files.open(path).read(10**6, 0)
    files.open(path).write([entry], len(good))
    segment = Segment.load(files, "/d", BASE, CONFIG)
    assert segment.read_next_offset() == BASE + 120
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (1392, BASE + 119)
    assert files.open(path).read(10**6, 0) == good


def test_a_file_that_ends_within_a_batch_has_no_end() -> None:
    files = _files()
    segment = _filled(files)
    segment.seal()
    segment.close()
    files.open("/d/00000000000000000100.log").truncate(segment.size - 1)
    with pytest.raises(CorruptRecordsError):
        Segment.load(files, "/d", BASE, CONFIG).read_next_offset()


def test_timestamps() -> None:
    segment = _segment(_files())
    assert (segment.max_timestamp, segment.first_timestamp) == (-1, -1)
    for offset, timestamp in ((100, 50), (101, 90), (102, 70), (103, 90)):
        _append(segment, batch(1, base_offset=offset, timestamp=timestamp))
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (90, 101)
    assert segment.first_timestamp == 50
    assert segment.largest_timestamp == 90
    for timestamp, start, wanted in ((0, 0, 100), (51, 0, 101), (60, 102, 102), (80, 102, 103)):
        found = segment.find_by_timestamp(timestamp, start)
        assert found is not None
        assert found.base_offset == wanted
    assert segment.find_by_timestamp(91, 0) is None


def test_without_timestamps_the_age_of_the_file_counts() -> None:
    files = SimFiles(now_ms=77)
    files.make_directory("/d")
    segment = _segment(files)
    _append(segment, batch(1, base_offset=BASE, timestamp=-1))
    assert segment.largest_timestamp == 77
    assert segment.max_timestamp_offset == BASE


def test_rolling() -> None:
    config = replace(CONFIG, segment_bytes=1000, segment_ms=500, segment_index_bytes=24)
    segment = _segment(_files(), config)
    segment.jitter_ms = 100
    assert not segment.should_roll(10**6, 1000, 0, BASE)
    assert segment.should_roll(0, 1001, 0, BASE)
    assert segment.should_roll(0, 10, 0, BASE + 2**31)
    _append(segment, batch(1, base_offset=BASE, timestamp=2000))
    assert not segment.should_roll(10**6, 10, 2400, BASE + 1)
    assert segment.should_roll(10**6, 10, 2401, BASE + 1)
    for n in range(1, 10):
        _append(segment, batch(1, base_offset=BASE + n, timestamp=2000 + n))
    assert segment.should_roll(0, 1, 2000, BASE + 20)


def test_rolling_by_clock_without_timestamps() -> None:
    segment = Segment.create(_files(), "/d", BASE, replace(CONFIG, segment_ms=500), created_ms=50)
    _append(segment, batch(1, base_offset=BASE, timestamp=-1))
    assert not segment.should_roll(550, 10, -1, BASE + 1)
    assert segment.should_roll(551, 10, -1, BASE + 1)


@pytest.mark.parametrize("offset", [BASE + 60, BASE + 61, BASE + 62])
def test_truncation(offset: int) -> None:
    files = _files()
    segment = _filled(files)
    size = segment.size // 40
    assert segment.truncate_to(offset, now_ms=5) == 20 * size
    assert segment.size == files.size("/d/00000000000000000100.log") == 20 * size
    assert segment.read_next_offset() == BASE + 60
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (1192, BASE + 59)
    _append(segment, batch(3, base_offset=BASE + 60, timestamp=5000))
    assert segment.locate(BASE + 60) is not None
    assert segment.truncate_to(BASE + 999, now_ms=5) == 0
    segment.truncate_to(BASE, now_ms=7)
    assert (segment.size, segment.created_ms, segment.max_timestamp) == (0, 7, -1)


def test_preallocated_files_are_cut_when_sealed() -> None:
    files = _files()
    config = replace(CONFIG, preallocate=True, segment_bytes=5000)
    segment = _filled(files, 2, config)
    path = "/d/00000000000000000100.log"
    assert files.size(path) == 5000
    segment.seal()
    assert files.size(path) == segment.size
    segment.file.truncate(5000)
    assert segment.cut_file() == 5000 - segment.size
    assert segment.cut_file() == 0


def test_folder_and_suffix_changes() -> None:
    files = _files()
    segment = _filled(files)
    segment.rename(".swap")
    assert files.list_directory("/d") == [
        "00000000000000000100.index.swap",
        "00000000000000000100.log.swap",
        "00000000000000000100.timeindex.swap",
    ]
    files.rename("/d", "/e")
    segment.set_folder("/e")
    segment.rest()
    assert segment.locate(BASE) is not None
    assert segment.find_by_timestamp(0, 0) is not None


def test_a_closed_segment_is_not_opened_again() -> None:
    """Nobody would close it; who was reading goes on."""
    files = _files()
    segment = _filled(files)
    directory = LogDirectory(files, "/d")
    region = SegmentRegion(directory, segment, 0, segment.size)
    segment.rest()
    segment.close()
    assert len(region.read()) == segment.size
    region.release()
    with pytest.raises(FileNotFoundError):
        _ = segment.file
    assert files.open_handles == 0
