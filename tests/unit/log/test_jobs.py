"""Disk work off the loop."""

from __future__ import annotations

import pytest

from kaa.log.append import append_as_leader
from kaa.log.dirs import LogDirectory
from kaa.log.files import read_whole
from kaa.log.futures import rename_folder
from kaa.log.jobs import (
    CheckpointJob,
    FlushLogJob,
    Job,
    RemoveFilesJob,
    RemoveFolderJob,
    SyncJob,
    WorkJob,
)
from kaa.log.producer_state import ProducerEntry
from kaa.log.sim_files import Fault, Operation, SimFiles
from kaa.log.truncation import truncate_to
from kaa.model.topics import TopicPartition
from kaa.records.errors import CorruptRecordsError
from tests.unit.log.batches import batch
from tests.unit.log.logs import ROOT, new_disk, new_log, run_jobs, stored_batches


def _prepared() -> tuple[SimFiles, LogDirectory]:
    files = new_disk()
    files.make_directory(f"{ROOT}/folder/inner")
    for path in (f"{ROOT}/file", f"{ROOT}/folder/file", f"{ROOT}/folder/inner/file"):
        files.create(path).close()
    return files, LogDirectory(files, ROOT)


def test_a_flush_moves_the_recovery_point_when_it_is_done() -> None:
    log = new_log(new_disk())
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    job = FlushLogJob(log)
    job.run()
    assert log.recovery_point == 0
    job.done(now_ms=7)
    assert (log.recovery_point, log.last_flushed_ms) == (2, 7)


@pytest.mark.parametrize("is_cleaning", [False, True])
def test_a_flush_leaves_only_the_active_segment_open(is_cleaning: bool) -> None:
    files = new_disk()
    log = new_log(files)
    for _ in range(30):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert len(log.segments) > 3
    before = files.open_handles
    log.is_cleaning = is_cleaning
    run_jobs([FlushLogJob(log)], 0)
    # A cleaner may have them in use.
    assert files.open_handles == (before if is_cleaning else 3)
    assert len(stored_batches(log)) == 30


def test_a_checkpoint_is_as_new_as_its_number() -> None:
    files, directory = _prepared()
    number = directory.number_checkpoint()
    directory.write_checkpoint("name", {TopicPartition("t", 0): 5})
    run_jobs([CheckpointJob(directory, "name", {TopicPartition("t", 0): 9}, number)], 0)
    assert read_whole(files, f"{ROOT}/name") == b"0\n1\nt 0 5\n"
    run_jobs([CheckpointJob(directory, "name", {TopicPartition("t", 0): 9})], 0)
    assert read_whole(files, f"{ROOT}/name") == b"0\n1\nt 0 9\n"


def test_folders_are_removed_also_a_second_time() -> None:
    files, directory = _prepared()
    for _ in range(2):
        run_jobs([RemoveFolderJob(directory, f"{ROOT}/folder")], 0)
        assert files.list_directory(ROOT) == ["file"]
    assert directory.is_online


@pytest.mark.parametrize("is_due", [False, True], ids=["doomed", "due"])
def test_files_of_a_folder_that_gets_another_name_are_removed_there(is_due: bool) -> None:
    """At the end of a move, before they are due or while a thread is about to unlink them."""
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.roll(0)
    log.remove_segments([log.segments.first], 0)
    later_ms = log.config.file_delete_delay_ms
    job = RemoveFilesJob(log, log.take_due(later_ms) if is_due else [])
    rename_folder(log, "other")
    job.run()
    assert [name for name in files.list_directory(log.folder) if name.endswith(".deleted")]
    job.done(0)
    run_jobs([RemoveFilesJob(log, log.take_due(later_ms))], 0)
    assert not [name for name in files.list_directory(log.folder) if name.endswith(".deleted")]
    assert log.take_due(later_ms) == []


@pytest.mark.parametrize(
    ("make", "operation"),
    [
        (lambda d: CheckpointJob(d, "name", {}), "sync"),
        (lambda d: RemoveFolderJob(d, f"{ROOT}/folder"), "rmdir"),
        (lambda d: SyncJob(d, [d.files.open(f"{ROOT}/file")]), "sync"),
    ],
)
def test_a_failure_takes_the_directory_offline(make: object, operation: Operation) -> None:
    files, directory = _prepared()
    assert callable(make)
    job: Job = make(directory)
    assert job.directory is directory
    files.faults.append(Fault(operation, ROOT))
    run_jobs([job], 0)
    assert not directory.is_online


def test_a_disk_that_fails_when_a_flush_is_done_is_offline() -> None:
    """A truncation took the producers back whose snapshot was written."""
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.unwritten_snapshots.append((2, [ProducerEntry(7)]))
    job = FlushLogJob(log)
    job.run()
    truncate_to(log, 0, now_ms=0)
    files.faults.append(Fault("unlink", ".snapshot"))
    job.done(0)
    assert not log.directory.is_online
    assert not log.is_flushing


def test_a_failed_flush_gives_its_files_back() -> None:
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    files.faults.append(Fault("sync", ".log"))
    run_jobs([FlushLogJob(log)], 0)
    assert (log.recovery_point, log.directory.is_online) == (0, False)
    log.close()
    assert files.open_handles == 0


def test_work_has_a_result() -> None:
    _, directory = _prepared()
    job = WorkJob(directory, lambda: 7)
    run_jobs([job], 0)
    assert job.result == 7


def test_damage_found_by_work_is_told_to_anyone_who_asks_for_the_result() -> None:
    _, directory = _prepared()

    def find_damage() -> None:
        raise CorruptRecordsError("damaged")

    job = WorkJob(directory, find_damage)
    run_jobs([job], 0)
    assert directory.is_online
    with pytest.raises(CorruptRecordsError, match="damaged"):
        _ = job.result


def test_work_that_meets_an_error_of_the_disk_takes_it_offline() -> None:
    _, directory = _prepared()

    def read() -> None:
        raise OSError("broken")

    run_jobs([WorkJob(directory, read)], 0)
    assert not directory.is_online
