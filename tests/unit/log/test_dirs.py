"""A log directory: lock, health, checkpoints."""

from __future__ import annotations

import errno

import pytest

from kaa.log.append import append_as_leader
from kaa.log.dirs import LogDirectory
from kaa.log.errors import StorageError
from kaa.log.files import read_whole
from kaa.log.jobs import CheckpointJob
from kaa.log.names import (
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)
from kaa.log.sim_files import Fault
from tests.unit.log.batches import batch
from tests.unit.log.logs import PARTITION, ROOT, new_disk, new_log
from tests.unit.log.managers import A, B, partition_of, started


def test_the_lock_is_taken_and_given_back() -> None:
    files = new_disk()
    directory = LogDirectory(files, ROOT)
    directory.take_lock()
    with pytest.raises(BlockingIOError):
        LogDirectory(files, ROOT).take_lock()
    directory.release_lock()
    directory.release_lock()
    LogDirectory(files, ROOT).take_lock()


def test_nothing_is_made_in_the_folder_that_a_disk_was_mounted_on() -> None:
    files = new_disk()
    manager = started(files, (A, B))
    first, second = manager.directories
    log = manager.get_or_create(partition_of(0), None, 0)
    assert log.directory is first
    files.rename(B, "/unmounted")
    files.make_directory(B)
    with pytest.raises(StorageError, match="was its disk unmounted"):
        manager.futures.create(log, second, 0)
    assert not second.is_online
    files.rename(A, "/unmounted-too")
    files.make_directory(A)
    with pytest.raises(StorageError, match="was its disk unmounted"):
        first.checkpoint_recovery_points()
    assert not first.is_online
    assert files.list_directory(A) == files.list_directory(B) == []


def test_new_log_is_made_on_a_disk_that_is_there() -> None:
    files = new_disk()
    manager = started(files, (A, B))
    files.rename(A, "/unmounted")
    files.make_directory(A)
    assert manager.get_or_create(partition_of(0), None, 0).folder == f"{B}/t-0"
    assert files.list_directory(A) == []


def test_the_first_error_counts_and_is_told_once() -> None:
    told: list[LogDirectory] = []
    directory = LogDirectory(new_disk(), ROOT, on_offline=told.append)
    assert directory.is_online
    first = directory.fail(OSError(errno.EIO, "first"))
    directory.fail(OSError(errno.EIO, "second"))
    assert "first" in str(first)
    assert "first" in str(directory.storage_error())
    assert told == [directory]


def test_damaged_checkpoints_are_as_good_as_none_and_reported_once() -> None:
    files = new_disk()
    path = f"{ROOT}/{RECOVERY_POINT_CHECKPOINT_FILE}"
    files.create(path).write([b"garbage"], 0)
    directory = LogDirectory(files, ROOT)
    reports: list[str] = []
    directory.report = reports.append
    for _ in range(2):
        assert directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE) == {}
    assert directory.read_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE) == {}
    (report,) = reports
    assert report.startswith(f"{path}: does not start with a version and a count")
    assert "goes on without it" in report


def test_an_error_while_writing_a_checkpoint_is_an_error_of_the_disk() -> None:
    files = new_disk()
    directory = LogDirectory(files, ROOT)
    files.faults.append(Fault("sync", RECOVERY_POINT_CHECKPOINT_FILE))
    with pytest.raises(StorageError):
        directory.checkpoint_recovery_points()
    assert not directory.is_online
    before = len(files.history)
    directory.checkpoint_recovery_points()
    assert len(files.history) == before


def test_checkpoints_of_a_log() -> None:
    files = new_disk()
    log = new_log(files)
    for _ in range(4):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.flush(now_ms=0)
    log.update_high_watermark(6)
    directory = log.directory
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    directory.checkpoint_log_start_offsets()
    table = read_whole(files, f"{ROOT}/recovery-point-offset-checkpoint")
    assert table == b"0\n1\ntopic 0 7\n"
    assert read_whole(files, f"{ROOT}/replication-offset-checkpoint") == b"0\n1\ntopic 0 6\n"
    assert read_whole(files, f"{ROOT}/log-start-offset-checkpoint") == b"0\n0\n"
    log.increment_log_start_offset(3)
    directory.checkpoint_log_start_offsets()
    assert directory.read_checkpoint("log-start-offset-checkpoint") == {PARTITION: 3}


def test_an_older_table_never_replaces_a_newer_one() -> None:
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.update_high_watermark(2)
    directory = log.directory
    late = CheckpointJob(directory, REPLICATION_OFFSET_CHECKPOINT_FILE, {PARTITION: 9})
    directory.checkpoint_high_watermarks()
    late.run()
    assert directory.read_checkpoint(REPLICATION_OFFSET_CHECKPOINT_FILE) == {PARTITION: 2}
    other = CheckpointJob(directory, RECOVERY_POINT_CHECKPOINT_FILE, {PARTITION: 1})
    other.run()
    assert directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE) == {PARTITION: 1}
