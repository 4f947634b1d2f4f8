"""Making a log durable: by policy, by job, and what a failing disk does."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kaa.log.append import append_as_follower, append_as_leader
from kaa.log.errors import StorageError
from kaa.log.files import read_whole
from kaa.log.leader_epochs import LeaderEpochCache
from kaa.log.log import UnifiedLog
from kaa.log.sim_files import Fault, SimFiles
from kaa.log.truncation import truncate_fully_and_start_at, truncate_to
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, new_disk, new_log, reload


def _filled(files: SimFiles | None = None, count: int = 30) -> UnifiedLog:
    """Batches of two records each; timestamps 1000, 1010, ..."""
    log = new_log(files or new_disk())
    for n in range(count):
        append_as_leader(log, batch(2, timestamp=1000 + 10 * n), leader_epoch=0, now_ms=n)
    return log


def test_a_roll_asks_for_a_flush() -> None:
    log = _filled(count=4)
    assert not log.needs_flush(10**9)
    for _ in range(10):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert log.needs_flush(0)
    job = log.flush_job()
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    job.run()
    log.complete_flush(job, now_ms=5)
    assert log.recovery_point == 28
    assert log.last_flushed_ms == 5
    assert not log.needs_flush(5)


def test_flush_messages_makes_appends_durable() -> None:
    files = new_disk()
    log = new_log(files, replace(SMALL, flush_messages=1))
    for n in range(20):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=n)
        assert log.recovery_point == log.log_end_offset == 2 * n + 2
    found = reload(files.restart("lost"), recovery_point=0)
    assert found.log_end_offset == 40
    assert found.topic_id == log.topic_id


def test_flush_ms() -> None:
    log = new_log(new_disk(), replace(SMALL, flush_ms=100))
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert not log.needs_flush(99)
    assert log.needs_flush(100)
    log.flush(100)
    assert not log.needs_flush(300)


def test_a_flush_overtaken_by_a_truncation_counts_for_nothing() -> None:
    log = _filled(count=10)
    job = log.flush_job()
    job.run()
    truncate_to(log, 8, now_ms=0)
    append_as_leader(log, batch(4), leader_epoch=1, now_ms=0)
    log.complete_flush(job, now_ms=0)
    assert log.recovery_point == 0


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_the_first_disk_error_takes_the_directory_offline(operation: str, code: int) -> None:
    files = new_disk()
    log = new_log(files, replace(SMALL, flush_messages=1))
    append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    files.faults.append(Fault("write" if operation == "write" else "sync", ".log", code))
    with pytest.raises(StorageError) as caught:
        append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    assert not log.directory.is_online
    assert (log.log_end_offset, log.recovery_point) == (1, 1)
    for refused in (
        lambda: append_as_leader(log, batch(1), leader_epoch=0, now_ms=0),
        lambda: append_as_follower(log, batch(1, base_offset=1), leader_epoch=0, now_ms=0),
        lambda: log.read(0, bytes_max=1),
        log.flush_job,
        lambda: truncate_to(log, 0, now_ms=0),
        lambda: truncate_fully_and_start_at(log, 0, now_ms=0),
    ):
        with pytest.raises(StorageError):
            refused()
    assert reload(files.restart("lost")).log_end_offset >= 1


def test_recovery_never_starts_behind_unsynced_indexes() -> None:
    files = new_disk()
    log = new_log(files, replace(SMALL, flush_messages=1))
    checkpoints = []
    for n in range(20):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=n)
        checkpoints.append(log.recovery_checkpoint)
        assert log.recovery_checkpoint < log.recovery_point == log.log_end_offset
    assert checkpoints == sorted(checkpoints)
    log.close_cleanly(now_ms=0)
    assert log.recovery_checkpoint == 40


def test_the_active_segment_costs_one_sync() -> None:
    files = new_disk()
    log = _filled(files, 2)
    log.flush(now_ms=0)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    before = len(files.history)
    log.flush(now_ms=0)
    assert [operation for operation, _ in files.history[before:]] == ["sync"]


def test_overlapping_jobs_leave_the_newest_epochs() -> None:
    files = new_disk()
    log = new_log(files)
    jobs = []
    for epoch in range(3):
        append_as_leader(log, batch(2), leader_epoch=epoch, now_ms=0)
        jobs.append(log.flush_job())
    for number, recovery_point in ((1, 4), (2, 6), (0, 6)):
        jobs[number].run()
        log.complete_flush(jobs[number], now_ms=0)
        assert log.recovery_point == recovery_point
        content = read_whole(files, "/data/topic-0/leader-epoch-checkpoint")
        epochs = LeaderEpochCache.decode("f", content).entries
        assert epochs == log.leader_epochs.entries[: recovery_point // 2]
    assert log.flush_job()._epochs is None


def test_a_flush_of_a_log_that_is_being_deleted_harms_nobody() -> None:
    files = new_disk()
    log = _filled(files, 20)
    job = log.flush_job()
    log.close()
    files.rename(log.folder, "/data/topic-0.x-delete")
    log.set_folder("/data/topic-0.x-delete")
    job.run()
    log.complete_flush(job, now_ms=0)
    assert log.directory.is_online
    assert files.open_handles == 0


def test_a_folder_that_vanishes_is_an_error_of_the_disk() -> None:
    files = new_disk()
    log = _filled(files, 2)
    job = log.flush_job()
    files.rename(log.folder, "/data/elsewhere")
    with pytest.raises(FileNotFoundError):
        job.run()


# --- snapshots of many producers


def _with_producers(files: SimFiles, count: int) -> UnifiedLog:
    log = new_log(files)
    for producer_id in range(count):
        content = batch(1, producer_id=producer_id, producer_epoch=0, sequence=0)
        append_as_leader(log, content, leader_epoch=0, now_ms=0)
    return log


def test_a_large_snapshot_is_written_by_the_flush_as_it_was_at_the_roll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.log.log.PRODUCERS_WRITTEN_ON_LOOP_MAX", 3)
    files = new_disk()
    log = _with_producers(files, 8)
    log.flush(now_ms=0)
    before = len(files.history)
    end = log.log_end_offset
    log.roll(0)
    assert not any("snapshot" in path for _, path in files.history[before:])
    assert log.needs_flush(0)
    job = log.flush_job()
    # What comes later is not of the snapshot.
    content = batch(1, producer_id=2, producer_epoch=0, sequence=1)
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    job.run()
    log.complete_flush(job, now_ms=0)
    newest = log.snapshots.read_latest()
    assert newest is not None
    offset, entries = newest
    assert offset == end
    assert [entry.producer_id for entry in entries] == list(range(8))
    assert [entry.last_sequence for entry in entries] == [0] * 8
    assert log.producer_state.producers[2].last_sequence == 1
    after = reload(files.restart("kill"))
    assert after.producer_state.producers[2].last_sequence == 1
    assert after.producer_state.producers.keys() == set(range(8))


def test_a_large_snapshot_of_what_was_truncated_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.log.PRODUCERS_WRITTEN_ON_LOOP_MAX", 3)
    files = new_disk()
    log = _with_producers(files, 8)
    log.roll(0)
    job = log.flush_job()
    truncate_to(log, 2, now_ms=0)
    job.run()
    log.complete_flush(job, now_ms=0)
    assert all(offset <= 2 for offset in log.snapshots.offsets)
    after = reload(files.restart("kill"))
    assert after.log_end_offset == 2
    assert after.producer_state.producers.keys() == {0, 1}


# --- a clean stop


def test_a_log_that_nobody_wrote_to_costs_a_clean_stop_nothing() -> None:
    files = new_disk()
    log = _filled(files)
    assert not log.is_clean
    log.close_cleanly(now_ms=0)
    log = reload(files, clean=True)
    # A leader that is elected and writes nothing.
    log.leader_epochs.assign(7, log.log_end_offset)
    assert log.is_clean
    before = len(files.history)
    log.close_cleanly(now_ms=0)
    assert files.history[before:] == []
    log = reload(files, clean=True)
    log.leader_epochs.assign(8, log.log_end_offset)
    append_as_leader(log, batch(2), leader_epoch=8, now_ms=0)
    assert not log.is_clean
    log.close_cleanly(now_ms=0)
    log = reload(files.restart("lost"), clean=True)
    assert log.log_end_offset == 62
    assert log.leader_epochs.latest_epoch == 8


def test_an_empty_log_costs_a_clean_stop_nothing() -> None:
    files = new_disk()
    log = new_log(files)
    assert log.is_clean


def test_a_job_that_cannot_be_made_keeps_no_file_open() -> None:
    files = new_disk()
    _filled(files, count=12).close()
    log = reload(files)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    for segment in log.segments:
        segment.is_synced = False
        segment.rest()
    files.faults = [Fault("open", ".index", skip=1)]
    with pytest.raises(StorageError):
        log.flush_job()
    log.close()
    assert files.open_handles == 0


def test_folder_that_gets_another_name_in_the_middle_of_a_flush_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread flushes a log that is deleted, or that a move puts aside, at that very moment."""
    files = new_disk()
    log = _filled(files)
    job = log.flush_job()
    rename = files.rename

    def renamed(before: str, after: str) -> None:
        rename(before, after)
        job.run()

    monkeypatch.setattr(files, "rename", renamed)
    log.rename_folder(f"{log.folder}-delete")
    log.complete_flush(job, now_ms=0)
    assert log.directory.is_online


def test_file_that_is_missing_from_a_folder_with_its_name_is_a_failure() -> None:
    files = new_disk()
    log = _filled(files)
    job = log.flush_job()
    files.rename(log.folder, f"{log.folder}-elsewhere")
    with pytest.raises(FileNotFoundError):
        job.run()
