"""Offsets by timestamp."""

from __future__ import annotations

import pytest

from kaa.log.append import append_as_leader
from kaa.log.errors import StorageError
from kaa.log.log import UnifiedLog
from kaa.log.lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TimestampAndOffset,
)
from kaa.log.sim_files import Fault, Inspection, SimFiles
from tests.unit.log.batches import batch
from tests.unit.log.logs import fetch_offset, new_disk, new_log, reload


def _filled(files: SimFiles | None = None) -> UnifiedLog:
    """Batches of three records, timestamps 100 n, 100 n + 1, 100 n + 2, over several segments."""
    log = new_log(files or new_disk())
    for n in range(30):
        append_as_leader(log, batch(3, timestamp=100 * n), leader_epoch=n // 10, now_ms=0)
    log.update_high_watermark(90)
    return log


def test_questions() -> None:
    log = _filled()
    log.increment_log_start_offset(37)
    assert fetch_offset(log, EARLIEST_TIMESTAMP) == TimestampAndOffset(-1, 37, 1)
    assert fetch_offset(log, EARLIEST_LOCAL_TIMESTAMP) == TimestampAndOffset(-1, 37, 1)
    assert fetch_offset(log, LATEST_TIMESTAMP) == TimestampAndOffset(-1, 90, 2)
    assert fetch_offset(log, LATEST_TIERED_TIMESTAMP) == TimestampAndOffset(-1, -1, -1)
    assert fetch_offset(log, EARLIEST_PENDING_UPLOAD_TIMESTAMP) == TimestampAndOffset(-1, -1, -1)
    assert fetch_offset(log, MAX_TIMESTAMP) == TimestampAndOffset(2902, 89, 2)


def test_every_timestamp() -> None:
    log = _filled()
    for n in range(30):
        assert fetch_offset(log, 100 * n) == TimestampAndOffset(100 * n, 3 * n, n // 10)
        assert fetch_offset(log, 100 * n + 2) == TimestampAndOffset(100 * n + 2, 3 * n + 2, n // 10)
        if n < 29:
            following = TimestampAndOffset(100 * n + 100, 3 * n + 3, (n + 1) // 10)
            assert fetch_offset(log, 100 * n + 3) == following
    assert fetch_offset(log, 2903) is None


def test_records_below_the_start_do_not_count() -> None:
    log = _filled()
    log.increment_log_start_offset(31)
    assert fetch_offset(log, 0) == TimestampAndOffset(1001, 31, 1)


def test_timestamps_need_not_rise() -> None:
    log = new_log(new_disk())
    for timestamp in (500, 900, 100, 900, 300):
        append_as_leader(log, batch(1, timestamp=timestamp), leader_epoch=0, now_ms=0)
    assert fetch_offset(log, 501) == TimestampAndOffset(900, 1, 0)
    assert fetch_offset(log, MAX_TIMESTAMP) == TimestampAndOffset(900, 1, 0)


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, 0, 10**6])
def test_an_empty_log_has_no_record(timestamp: int) -> None:
    assert fetch_offset(new_log(new_disk()), timestamp) is None


@pytest.mark.parametrize("operation", ["open", "read", "size"])
@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, 1500])
def test_what_cannot_be_read_takes_the_directory_offline(
    operation: Inspection, timestamp: int
) -> None:
    files = new_disk()
    _filled(files).close_cleanly(now_ms=0)
    log = reload(files, clean=True)
    log.rest()
    files.faults = [Fault(operation, "/topic-0/")]
    with pytest.raises(StorageError):
        fetch_offset(log, timestamp)
    assert not log.directory.is_online
    with pytest.raises(StorageError):
        fetch_offset(log, timestamp)
    assert fetch_offset(log, EARLIEST_TIMESTAMP) is not None, "it takes no disk"
