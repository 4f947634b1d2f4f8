"""Positions, descriptors and removed files of a log."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kaa.limits import LOG_RECENT_POSITIONS_MAX
from kaa.log.append import append_as_follower, append_as_leader
from kaa.log.errors import ShortageError, StorageError
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.log.producer_state import ProducerEntry
from kaa.log.sim_files import Fault, SimFiles
from kaa.records.batch import RecordBatch
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, new_disk, new_log, stored_batches

LOG_END = FetchIsolation.LOG_END


def _filled(files: SimFiles | None = None, count: int = 30) -> UnifiedLog:
    """Batches of two records each; timestamps 1000, 1010, ..."""
    log = new_log(files or new_disk())
    for n in range(count):
        append_as_leader(log, batch(2, timestamp=1000 + 10 * n), leader_epoch=0, now_ms=n)
    return log


def test_reads_at_the_end_need_no_disk() -> None:
    files = new_disk()
    log = _filled(files, 5)
    log.update_high_watermark(10)
    log.segments.active.rest()
    assert files.open_handles == 0
    result = log.read(8, bytes_max=1000)
    assert result.region is not None
    assert files.open_handles == 0


def test_a_gap_is_skipped() -> None:
    log = new_log(new_disk())
    for offset in range(0, 200, 10):
        append_as_follower(log, batch(2, base_offset=offset), leader_epoch=0, now_ms=0)
    for offset in range(191):
        result = log.read(offset, bytes_max=1, isolation=LOG_END)
        assert result.region is not None
        assert RecordBatch(result.region.read()).last_offset >= offset
    assert log.log_end_offset == 192


def test_remembered_positions_are_few() -> None:
    log = _filled(count=LOG_RECENT_POSITIONS_MAX + 20)
    assert len(log._recent) == LOG_RECENT_POSITIONS_MAX
    for offset in range(0, log.log_end_offset, 3):
        result = log.read(offset, bytes_max=1, isolation=LOG_END)
        assert result.region is not None
        assert RecordBatch(result.region.read()).base_offset == offset - offset % 2
    assert len(log._recent) == LOG_RECENT_POSITIONS_MAX


def test_a_resting_log_keeps_only_its_active_segment_open() -> None:
    files = new_disk()
    log = _filled(files)
    stored = stored_batches(log)
    log.rest()
    assert files.open_handles == 3, "a log file and two indexes"
    assert [b.base_offset for b in stored_batches(log)] == [b.base_offset for b in stored]


def test_removed_files_wait_for_their_time() -> None:
    files = new_disk()
    log = _filled(files)
    first = log.segments.first
    log.remove_segments([first], now_ms=100)
    assert log.take_due(now_ms=60_099) == []
    paths = log.take_due(now_ms=60_100)
    assert f"{log.folder}/{0:020d}.log.deleted" in paths
    assert log.take_due(now_ms=10**9) == []
    assert files.exists(paths[0])


def test_a_closed_log_has_no_file_open_not_even_a_removed_one() -> None:
    files = new_disk()
    log = _filled(files)
    assert stored_batches(log)
    log.remove_segments([log.segments.first], now_ms=100)
    log.close()
    assert files.open_handles == 0


def test_new_settings_count_for_the_active_segment() -> None:
    log = _filled(count=1)
    log.update_config(replace(SMALL, segment_bytes=100_000))
    for _ in range(50):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert len(log.segments) == 1


def test_a_flush_that_cannot_open_its_files_leaves_the_next_one_all_there_is() -> None:
    files = new_disk()
    log = _filled(files)
    entries = [ProducerEntry(7)]
    log.unwritten_snapshots.append((60, entries))
    paths = list(log.unsynced_files)
    assert paths
    log.directory.futures[log.partition] = log
    log.segments.active.rest()
    files.faults.append(Fault("open", ".log", errno.EMFILE))
    with pytest.raises(ShortageError):
        log.flush_job()
    assert (log.unsynced_files, log.unwritten_snapshots) == (paths, [(60, entries)])
    log.flush(0)
    assert (log.unsynced_files, log.unwritten_snapshots) == ([], [])
    assert log.snapshots.offsets[-1] == 60


def test_an_error_while_removing_takes_the_directory_offline() -> None:
    files = new_disk()
    log = _filled(files)
    files.faults.append(Fault("rename", ".deleted"))
    with pytest.raises(StorageError):
        log.remove_segments([log.segments.first], now_ms=0)
    assert not log.directory.is_online


def test_files_that_a_deleted_log_no_longer_has_do_not_take_the_directory_offline() -> None:
    log = _filled()
    log.rest()
    log.close()
    with pytest.raises(StorageError, match="no longer in use"):
        log.read(0, bytes_max=1, isolation=LOG_END)
    with pytest.raises(StorageError), log.storage():
        raise FileNotFoundError(2, "gone")
    assert log.directory.is_online
    with pytest.raises(StorageError), log.storage():
        raise OSError(5, "broken")
    assert not log.directory.is_online
