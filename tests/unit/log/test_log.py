"""A log: appending, reading, offsets, rolling, flushing, truncation, clean stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kaa.log.append import (
    BY_COORDINATOR,
    AppendSource,
    UnexpectedAppendOffsetError,
    append_as_follower,
    append_as_leader,
)
from kaa.log.errors import LogError
from kaa.log.leader_epochs import EpochEntry
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.log.sim_files import SimFiles
from kaa.model.kinds import AppendOrigin
from kaa.records.batch import RecordBatch
from kaa.records.errors import CorruptRecordsError
from kaa.wire.errors import Errors
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import SMALL, new_disk, new_log, reload, stored_batches, stored_records

LOG_END = FetchIsolation.LOG_END


def _filled(files: SimFiles | None = None, count: int = 30) -> UnifiedLog:
    """Batches of two records each; timestamps 1000, 1010, ..."""
    log = new_log(files or new_disk())
    for n in range(count):
        append_as_leader(log, batch(2, timestamp=1000 + 10 * n), leader_epoch=0, now_ms=n)
    return log


# --- appending


def test_the_leader_assigns_offsets_and_epoch_in_place() -> None:
    log = new_log(new_disk())
    content = batch(3, base_offset=99, leader_epoch=-1) + batch(2, base_offset=7, leader_epoch=-1)
    info = append_as_leader(log, content, leader_epoch=4, now_ms=0)
    assert (info.first_offset, info.last_offset, info.record_count) == (0, 4, 5)
    assert info.size_in_bytes == len(content)
    assert info.last_leader_epoch == 4
    first, second = stored_batches(log)
    assert (first.base_offset, second.base_offset) == (0, 3)
    assert (first.partition_leader_epoch, second.partition_leader_epoch) == (4, 4)
    assert first.is_valid_crc()
    assert log.log_end_offset == 5


def test_one_append_is_one_write() -> None:
    files = new_disk()
    log = new_log(files)
    before = len(files.history)
    append_as_leader(log, batch(3) + batch(2), leader_epoch=0, now_ms=0)
    assert [operation for operation, _ in files.history[before:]] == ["write"]


def test_too_large_batches_and_appends_are_refused() -> None:
    log = new_log(new_disk(), replace(SMALL, max_message_bytes=200))
    with pytest.raises(LogError) as caught:
        append_as_leader(log, batch(1, value_bytes=200), leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.MESSAGE_TOO_LARGE
    with pytest.raises(LogError) as caught:
        append_as_leader(log, batch(3) * 10, leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_the_metadata_log_may_exceed_the_message_size() -> None:
    log = new_log(new_disk(), replace(SMALL, max_message_bytes=100))
    raft = AppendOrigin.RAFT_LEADER
    append_as_leader(
        log, batch(1, value_bytes=200), leader_epoch=0, now_ms=0, source=AppendSource(raft)
    )
    assert log.log_end_offset == 1


def test_nothing_to_append() -> None:
    log = new_log(new_disk())
    info = append_as_leader(log, bytearray(), leader_epoch=0, now_ms=0)
    assert info.record_count == 0
    assert log.log_end_offset == 0


def test_append_time_is_reported() -> None:
    log = new_log(new_disk(), replace(SMALL, message_timestamp_type="LogAppendTime"))
    assert (
        append_as_leader(log, batch(1, timestamp=55), leader_epoch=0, now_ms=0).log_append_time_ms
        == 55
    )


def test_followers_take_offsets_as_they_are() -> None:
    leader, follower = _filled(count=5), new_log(new_disk())
    content = b"".join(bytes(b.view) for b in stored_batches(leader))
    info = append_as_follower(follower, content[:-1], leader_epoch=0, now_ms=0)
    assert (info.first_offset, info.last_offset) == (0, 7)
    rest = bytes(stored_batches(leader)[-1].view)
    append_as_follower(follower, rest, leader_epoch=0, now_ms=0)
    assert [bytes(b.view) for b in stored_batches(follower)] == [
        bytes(b.view) for b in stored_batches(leader)
    ]
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        append_as_follower(follower, rest, leader_epoch=0, now_ms=0)
    assert (caught.value.first_offset, caught.value.last_offset) == (8, 9)


def test_followers_leave_gaps_and_refuse_damage() -> None:
    log = new_log(new_disk())
    append_as_follower(log, batch(2, base_offset=50), leader_epoch=0, now_ms=0)
    assert log.log_end_offset == 52
    damaged = batch(2, base_offset=60)
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordsError):
        append_as_follower(log, damaged, leader_epoch=0, now_ms=0)
    assert log.log_end_offset == 52


def test_followers_stop_at_a_newer_epoch() -> None:
    log = new_log(new_disk())
    content = batch(1, base_offset=0, leader_epoch=3) + batch(1, base_offset=1, leader_epoch=5)
    info = append_as_follower(log, content, leader_epoch=4, now_ms=0)
    assert info.last_offset == 0
    assert log.leader_epochs.entries == [EpochEntry(3, 0)]
    info = append_as_follower(log, content[len(content) // 2 :], leader_epoch=5, now_ms=0)
    assert info.last_offset == 1
    assert log.leader_epochs.entries == [EpochEntry(3, 0), EpochEntry(5, 1)]


# --- reading


def test_every_offset_can_be_read() -> None:
    log = _filled()
    assert len(log.segments) > 3
    for offset in range(60):
        result = log.read(offset, bytes_max=1, isolation=LOG_END)
        assert result.region is not None
        found = RecordBatch(result.region.read())
        assert found.base_offset == offset - offset % 2
        assert result.region.length == found.size_in_bytes
        result.region.release()
    assert log.read(60, bytes_max=1, isolation=LOG_END).region is None


@pytest.mark.parametrize("offset", [-1, 61])
def test_offsets_outside_of_the_log(offset: int) -> None:
    with pytest.raises(LogError) as caught:
        _filled().read(offset, bytes_max=1)
    assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE


def test_reads_end_at_the_high_watermark() -> None:
    log = _filled(count=4)
    assert log.read(0, bytes_max=1000).region is None
    for high_watermark in range(0, 9, 2):
        log.update_high_watermark(high_watermark)
        result = log.read(0, bytes_max=1000)
        assert result.end_offset_bound == high_watermark
        size = RecordBatch(batch(2)).size_in_bytes
        length = 0 if result.region is None else result.region.length
        assert length == high_watermark // 2 * size


def test_reads_stop_at_whole_batches_and_may_refuse_a_large_one() -> None:
    log = _filled(count=4)
    size = len(batch(2))
    result = log.read(2, bytes_max=2 * size + 5, isolation=LOG_END)
    assert result.region is not None
    assert result.region.length == 2 * size
    result = log.read(2, bytes_max=size - 1, isolation=LOG_END, min_one_batch=False)
    assert result.region is None
    result = log.read(2, bytes_max=size - 1, isolation=LOG_END)
    assert result.region is not None
    assert result.region.length == size


def test_committed_reads_end_at_the_first_open_transaction() -> None:
    log = new_log(new_disk())
    append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    for producer_id in (7, 8):
        content = batch(
            1, producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True
        )
        append_as_leader(log, content, leader_epoch=0, now_ms=0)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    append_as_leader(log, marker(ABORT, 7, 0), leader_epoch=0, now_ms=0, source=BY_COORDINATOR)
    assert log.last_stable_offset == 1, "the marker is not replicated yet"
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2
    append_as_leader(log, marker(COMMIT, 8, 0), leader_epoch=0, now_ms=0, source=BY_COORDINATOR)
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    result = log.read(0, bytes_max=1000, isolation=FetchIsolation.TXN_COMMITTED)
    assert result.aborted is not None
    assert [(a.producer_id, a.first_offset, a.last_offset) for a in result.aborted] == [(7, 1, 3)]
    result = log.read(4, bytes_max=1000, isolation=FetchIsolation.TXN_COMMITTED)
    assert result.aborted == []
    assert log.read(0, bytes_max=1000).aborted is None
    assert log.read(5, bytes_max=9, isolation=FetchIsolation.TXN_COMMITTED).aborted == []


# --- offsets


def test_the_high_watermark_stays_within_the_log() -> None:
    log = _filled(count=2)
    assert log.update_high_watermark(99) == 4
    assert log.update_high_watermark(-5) == 0


def test_the_start_moves_up_to_the_high_watermark_only() -> None:
    log = _filled(count=10)
    log.update_high_watermark(11)
    assert log.increment_log_start_offset(7)
    assert not log.increment_log_start_offset(6)
    assert (log.log_start_offset, log.local_log_start_offset) == (7, 7)
    with pytest.raises(LogError) as caught:
        log.increment_log_start_offset(12)
    assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE
    with pytest.raises(LogError):
        log.read(6, bytes_max=1)
    result = log.read(7, bytes_max=1)
    assert result.region is not None
    assert RecordBatch(result.region.read()).base_offset == 6
    assert log.leader_epochs.entries == [EpochEntry(0, 7)]


# --- rolling and flushing


def test_segments_roll_by_size_with_a_snapshot_each() -> None:
    files = new_disk()
    log = _filled(files)
    bases = log.segments.base_offsets
    assert len(bases) > 3
    assert log.snapshots.offsets == bases[1:]
    assert all(segment.size <= 600 for segment in log.segments)
    assert all(
        files.exists(f"/data/topic-0/{base:020d}{suffix}")
        for base in bases
        for suffix in (".log", ".index", ".timeindex")
    )


def test_jitter_is_drawn_below_the_limit() -> None:
    log = new_log(new_disk(), replace(SMALL, segment_jitter_ms=50))
    for n in range(60):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=n)
    jitters = {segment.jitter_ms for segment in log.segments}
    assert len(jitters) > 2
    assert max(jitters) < 50


# --- clean stops


def test_a_clean_stop_is_loaded_without_a_scan() -> None:
    files = new_disk()
    log = _filled(files)
    for n in range(3):
        content = batch(1, producer_id=7, producer_epoch=0, sequence=n)
        append_as_leader(log, content, leader_epoch=2, now_ms=0)
    records = stored_records(log)
    log.close_cleanly(now_ms=0)
    assert files.open_handles == 0
    after = files.restart("lost")
    writes = len(after.history)
    found = reload(after, clean=True)
    assert len(after.history) == writes
    assert (found.log_end_offset, found.recovery_point) == (63, 63)
    assert found.leader_epochs.entries == [EpochEntry(0, 0), EpochEntry(2, 60)]
    assert stored_records(found) == records
    again = batch(1, producer_id=7, producer_epoch=0, sequence=2)
    info = append_as_leader(found, again, leader_epoch=2, now_ms=0)
    assert (info.is_duplicate, info.first_offset) == (True, 62)
