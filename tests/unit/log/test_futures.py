"""Future logs, their swap, and what a crash or a broken disk leaves of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, get_args

import pytest

from kaa.log.append import append_as_follower, append_as_leader
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.files import remove_tree
from kaa.log.log import FetchIsolation
from kaa.log.manager import LogManager
from kaa.log.names import parse_folder_name
from kaa.log.rebuild import RemoteState, begin_rebuild
from kaa.log.sim_files import CrashError, CrashMode, Fault, Inspection, Operation, SimFiles
from kaa.log.truncation import truncate_fully_and_start_at, truncate_to
from kaa.model.topics import TopicPartition
from tests.support.ids import uuid
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, run_jobs, stored_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.log import UnifiedLog

A, B = "/a", "/b"
KEY = TopicPartition("t", 0)
TOPIC_ID = uuid(5)
CONFIG = LogManagerConfig(transaction_partition_verification_enable=False)
TIERED = replace(SMALL, remote_storage_enable=True)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
DURABLE_RECORDS = 20
RECORDS = 30


def started(files: SimFiles, config: LogConfig = SMALL) -> LogManager:
    manager = LogManager(files, (A, B), CONFIG, Random(3), lambda _: config)
    manager.lock()
    for _ in manager.start(now_ms=0):
        pass
    return manager


def disks() -> SimFiles:
    files = SimFiles()
    for path in (A, B):
        files.make_directory(path)
    files.sync_directory("")
    return files


def filled(manager: LogManager) -> UnifiedLog:
    """A log in the first directory, most of it on stable storage."""
    log = manager.get_or_create(KEY, TOPIC_ID, now_ms=0)
    assert log.directory.path == A
    for number in range(RECORDS // 2):
        if 2 * number == DURABLE_RECORDS:
            log.flush(0)
        append_as_leader(log, batch(2, timestamp=number), leader_epoch=number // 4, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


def copy(source: UnifiedLog, future: UnifiedLog, end_offset: int) -> None:
    while future.log_end_offset < end_offset:
        offset = future.log_end_offset
        region = source.read(offset, bytes_max=1, isolation=FetchIsolation.LOG_END).region
        assert region is not None
        append_as_follower(future, region.read(), leader_epoch=9, now_ms=0)
        region.release()


def swap(manager: LogManager, source: UnifiedLog, leader_epoch: int = 9) -> list[Exception | None]:
    ends: list[Exception | None] = []
    futures = manager.futures
    futures.begin_swap(source, leader_epoch=leader_epoch, now_ms=0, ended=ends.append).settle()
    return ends


def move(manager: LogManager) -> None:
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, 24)
    assert swap(manager, source) == [None]


def found_after(files: SimFiles, config: LogConfig = SMALL) -> tuple[LogManager, UnifiedLog]:
    """What the next process has: the log, or the future log where a swap had begun."""
    manager = started(files, config)
    log = manager.get(KEY)
    if log is None:
        log = manager.futures.promote(KEY)
    return manager, log


def plain_folders(files: SimFiles) -> list[str]:
    names = [f"{path}/{name}" for path in (A, B) for name in files.list_directory(path)]
    return [name for name in names if name.endswith("/t-0")]


def marks(files: SimFiles, path: str) -> list[str]:
    parsed = [parse_folder_name(name) for name in files.list_directory(path)]
    return [found.mark for found in parsed if found is not None]


def test_swap_changes_the_places_and_keeps_everything() -> None:
    files = disks()
    manager = started(files)
    source = filled(manager)
    before = [bytes(each.view) for each in stored_batches(source)]
    region = source.read(0, bytes_max=10_000).region
    assert region is not None
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, 24)
    assert swap(manager, source) == [None]
    log = manager.get(KEY)
    assert log is future
    assert log.directory.path == B
    assert manager.directories[0].logs == {}
    assert manager.directories[1].logs == {KEY: log}
    assert [bytes(each.view) for each in stored_batches(log)] == before
    assert log.leader_epochs.entries == source.leader_epochs.entries
    assert (log.high_watermark, log.recovery_point >= DURABLE_RECORDS) == (RECORDS, True)
    # Who was reading goes on reading.
    assert region.read() == b"".join(before)[: region.length]
    region.release()
    assert plain_folders(files) == [f"{B}/t-0"]
    assert marks(files, A) == ["delete"]
    append_as_leader(log, batch(1), leader_epoch=9, now_ms=0)
    for _ in manager.shutdown(0, 1):
        pass
    assert found_after(files)[1].log_end_offset == RECORDS + 1


def test_a_tail_that_cannot_be_copied_ends_the_swap() -> None:
    """No leader writes records of a later epoch than its own; whatever did, nothing goes round."""
    manager = started(disks())
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, 10)
    (error,) = swap(manager, source, leader_epoch=1)
    assert "of a later leader epoch than 1" in str(error)
    assert manager.get(KEY) is source
    assert not source.is_cleaning
    append_as_leader(source, batch(1), leader_epoch=9, now_ms=0)


@pytest.mark.parametrize("begin", [truncate_fully_and_start_at, truncate_to])
def test_source_that_was_trimmed_inside_of_its_last_batch_is_moved(
    begin: Callable[[UnifiedLog, int, int], object],
) -> None:
    """The copy ends in the middle of that batch."""
    manager = started(disks())
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, RECORDS)
    future.update_high_watermark(RECORDS)
    begin(future, RECORDS - 1, 0)
    source.increment_log_start_offset(RECORDS - 1)
    assert swap(manager, source) == [None]
    assert (future.log_start_offset, future.log_end_offset) == (RECORDS - 1, RECORDS)
    assert [each.base_offset for each in stored_batches(future)] == [RECORDS - 2]


def give_up(manager: LogManager, source: UnifiedLog, ends: list[Exception | None]) -> None:
    """What a move does when its swap did not succeed: the copy goes, unless it may be all."""
    if ends != [None] and source.directory.is_online:
        manager.futures.drop(KEY, 0)


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
@pytest.mark.parametrize("copied", [24, RECORDS])
@pytest.mark.parametrize("path", [A, B])
@pytest.mark.parametrize("operation", [*get_args(Operation), "read", "open"])
def test_disk_that_fails_at_any_operation_of_a_swap_costs_no_record(
    operation: Operation | Inspection, path: str, copied: int, mode: CrashMode
) -> None:
    """Whether the broker goes on or is killed, and whether the disk is back then or not."""
    skip, is_hit = 0, True
    while is_hit:
        files = disks()
        manager = started(files)
        source = filled(manager)
        source.flush(0)
        future = manager.futures.create(source, manager.directories[1], 0)
        copy(source, future, copied)
        future.flush(0)
        for each in (source, future):
            each.rest()
        files.faults = [Fault(operation, path, skip=skip, times=10**9)]
        ends = swap(manager, source)
        is_hit = any(not directory.is_online for directory in manager.directories)
        files.faults = []
        give_up(manager, source, ends)
        end_offset, log = RECORDS, manager.get(KEY)
        assert log is not None
        if log.directory.is_online:
            # It serves on, and what it acknowledges is durable.
            assert log.folder == f"{log.directory.path}/t-0"
            append_as_leader(log, batch(2), leader_epoch=9, now_ms=0)
            log.flush(0)
            end_offset += 2
        elif ends != [None]:
            assert path == A
            assert manager.futures.get(KEY) is not None, "the copy may be the last one"
        else:
            # It failed as the disk of the log, after the swap.
            assert log.folder == f"{B}/t-0"
        found = found_after(files.restart(mode, seed=skip))[1]
        assert found.log_end_offset == end_offset, f"{operation} {skip}: {ends}"
        assert len(stored_batches(found)) == end_offset // 2
        skip += 1


def test_source_that_fails_when_the_copy_has_everything_is_not_waited_for() -> None:
    files = disks()
    manager = started(files)
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, 24)
    files.faults = [Fault("sync_directory", A)]
    assert swap(manager, source) == [None]
    assert not source.directory.is_online
    assert manager.get(KEY) is future
    assert future.folder == f"{B}/t-0"


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_logs_that_a_failed_disk_left_the_longer_one_serves(is_first: bool) -> None:
    files = disks()
    manager = started(files)
    source = filled(manager)
    source.flush(0)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, 10 if is_first else RECORDS)
    if not is_first:
        append_as_leader(future, batch(2), leader_epoch=9, now_ms=0)
    files.rename(future.folder, f"{B}/t-0")
    manager.abandon()
    manager, log = found_after(files)
    path, other, end = (A, B, RECORDS) if is_first else (B, A, RECORDS + 2)
    assert (log.folder, log.log_end_offset) == (f"{path}/t-0", end)
    assert plain_folders(files) == [f"{path}/t-0"]
    assert marks(files, other) == ["stray"]
    assert [each[:2] for each in manager.strays] == [other]
    assert not manager.is_lost(KEY)
    assert [len(each.logs) for each in manager.directories] == ([1, 0] if is_first else [0, 1])
    assert log.directory.logs[KEY] is log


@pytest.mark.parametrize("is_over", [True, False])
def test_flush_of_the_source_that_ends_within_the_swap_is_not_undone_by_it(is_over: bool) -> None:
    """With group commit its records are acknowledged then, whether the power fails within the swap
    or after it, and whether the flush had begun before.
    """
    for is_under_way in (True, False):
        files = disks()
        manager = started(files)
        source = filled(manager)
        future = manager.futures.create(source, manager.directories[1], 0)
        copy(source, future, 24)
        future.flush(0)
        job = source.flush_job() if is_under_way else None
        pending = manager.futures.begin_swap(
            source, leader_epoch=9, now_ms=0, ended=lambda _: None, is_group_committed=True
        )
        while not pending.is_settled:
            pending.advance()
            if source.folder.endswith("-delete") and source.recovery_point < RECORDS:
                job = job or source.flush_job()
                job.run()
                source.complete_flush(job, 0)
                break
        assert source.recovery_point == RECORDS
        if is_over:
            pending.settle()
        assert found_after(files.restart("lost", seed=1))[1].log_end_offset == RECORDS


def test_records_that_are_deleted_within_a_swap_stay_deleted() -> None:
    step, is_over = 0, False
    while not is_over:
        files = disks()
        manager = started(files)
        source = filled(manager)
        source.flush(0)
        future = manager.futures.create(source, manager.directories[1], 0)
        copy(source, future, RECORDS)
        future.flush(0)
        pending = manager.futures.begin_swap(source, leader_epoch=9, now_ms=0, ended=lambda _: None)
        for _ in range(step):
            is_over = pending.is_settled
            pending.advance()
        directory = manager.delete_records(KEY, 17)
        assert directory is not None
        for job in manager.checkpoint_starts(directory):
            if job is not None:
                job.run()
        for mode in get_args(CrashMode):
            found = found_after(files.restart(mode, seed=step))[1]
            assert found.log_start_offset == 17, f"{mode} after step {step}"
        step += 1
    assert step > 3


def tiered(manager: LogManager) -> UnifiedLog:
    """A log whose first segments are in remote storage alone, with what only they would tell: an
    epoch and a producer. It starts within them.
    """
    log = manager.get_or_create(KEY, TOPIC_ID, now_ms=0)
    content = batch(2, producer_id=7, producer_epoch=0, sequence=0, timestamp=10**12)
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    for number in range(1, RECORDS // 2):
        append_as_leader(log, batch(2, timestamp=number), leader_epoch=number // 4, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    log.flush(0)
    local = log.segments.active.base_offset
    assert log.leader_epochs.epoch_for_offset(local) != 0
    log.copied_offset = local - 1
    log.increment_log_start_offset(3)
    log.local_log_start_offset = local
    log.remove_segments([one for one in log.segments if one.base_offset < local], 0)
    log.directory.files.sync_directory(log.folder)
    log.directory.checkpoint_log_start_offsets()
    log.directory.checkpoint_recovery_points()
    return log


def remembered(log: UnifiedLog) -> tuple[object, ...]:
    """What reads of remote segments need, and producers that write on."""
    state = log.producer_state
    return (
        (log.log_start_offset, log.local_log_start_offset, log.log_end_offset),
        log.leader_epochs.entries,
        {key: entry.last_sequence for key, entry in state.producers.items()},
        [bytes(each.view) for each in stored_batches(log, log.local_log_start_offset)],
    )


def begun(manager: LogManager, source: UnifiedLog) -> UnifiedLog:
    """The copy of a tiered log, which begins by being rebuilt."""
    future = manager.futures.create(source, manager.directories[1], 0)
    start = source.local_log_start_offset
    state = RemoteState(start, source.leader_epochs.entries, source.snapshots.encoded_at(start))
    begin_rebuild(future, state, source.log_start_offset, 0).settle()
    return future


def test_tiered_log_keeps_what_only_remote_segments_tell() -> None:
    manager = started(disks(), TIERED)
    source = tiered(manager)
    before = remembered(source)
    future = begun(manager, source)
    copy(source, future, source.log_end_offset - 2)
    assert swap(manager, source) == [None]
    assert remembered(future) == before
    assert future.copied_offset == source.copied_offset


def test_start_of_a_tiered_log_may_pass_what_is_on_the_disk() -> None:
    """By DeleteRecords, while the copy is under way."""
    manager = started(disks(), TIERED)
    source = tiered(manager)
    future = begun(manager, source)
    copy(source, future, source.log_end_offset)
    source.increment_log_start_offset(source.log_end_offset - 1)
    assert swap(manager, source) == [None]
    assert future.log_start_offset == future.local_log_start_offset == source.log_start_offset


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_crash_at_any_operation_of_a_swap_keeps_what_only_remote_segments_tell(
    mode: CrashMode,
) -> None:
    places = set()
    crash_at, is_over = 0, False
    while not is_over:
        files = disks()
        manager = started(files, TIERED)
        source = tiered(manager)
        before = remembered(source)
        future = begun(manager, source)
        copy(source, future, source.log_end_offset)
        files.crash_at = len(files.history) + crash_at
        with suppress(CrashError):
            is_over = swap(manager, source) == [None]
        log = found_after(files.restart(mode, seed=crash_at), TIERED)[1]
        assert remembered(log) == before, f"after operation {crash_at}"
        places.add(log.directory.path)
        crash_at += 1
    assert places == {A, B}


def compacted(manager: LogManager) -> UnifiedLog:
    """A log of many segments with gaps between them."""
    log = manager.get_or_create(KEY, TOPIC_ID, now_ms=0)
    for number in range(RECORDS):
        key = b"again" if number % 10 else b"%d" % number
        append_as_leader(log, batch([(key, bytes(200))]), leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    log.flush(0)
    run_jobs(manager.cleaner.work(0), 0)
    return log


@pytest.mark.parametrize("mode", get_args(CrashMode))
def test_crash_at_any_operation_of_a_swap_keeps_what_lies_behind_gaps(mode: CrashMode) -> None:
    """The log was compacted, and its policy is another one by now."""
    places = set()
    crash_at, is_over = 0, False
    while not is_over:
        files = disks()
        manager = started(files, COMPACTED)
        source = compacted(manager)
        before = [bytes(each.view) for each in stored_batches(source)]
        assert RECORDS // 10 < len(before) < RECORDS // 2
        manager.directories[0].checkpoint_recovery_points()
        source.update_config(SMALL)
        future = manager.futures.create(source, manager.directories[1], 0)
        copy(source, future, source.log_end_offset)
        files.crash_at = len(files.history) + crash_at
        with suppress(CrashError):
            is_over = swap(manager, source) == [None]
        log = found_after(files.restart(mode, seed=crash_at))[1]
        assert [bytes(each.view) for each in stored_batches(log)] == before
        places.add(log.directory.path)
        crash_at += 1
    assert places == {A, B}


def test_of_two_copies_that_a_crash_left_the_longer_one_is_gone_on_with() -> None:
    files = disks()
    files.make_directory("/c")
    paths = (A, B, "/c")

    def manager_of() -> LogManager:
        manager = LogManager(files, paths, CONFIG, Random(3), lambda _: SMALL)
        manager.lock()
        for _ in manager.start(now_ms=0):
            pass
        return manager

    manager = manager_of()
    source = filled(manager)
    for number, end_offset in ((1, 10), (2, 20)):
        future = manager.futures.create(source, manager.directories[number], 0)
        copy(source, future, end_offset)
        del manager.futures.logs[KEY]
        future.close()
    manager.abandon()
    manager = manager_of()
    assert manager.futures.logs[KEY].log_end_offset == 20
    assert manager.futures.logs[KEY].directory.path == "/c"
    assert marks(files, B) == ["delete"]


def test_future_log_that_is_given_up_goes_with_its_folder() -> None:
    files = disks()
    manager = started(files)
    source = filled(manager)
    manager.futures.create(source, manager.directories[1], 0)
    assert marks(files, B) == ["future"]
    manager.futures.drop(KEY, 0)
    assert marks(files, B) == ["delete"]
    for now_ms in (0, 10**9):
        for job in manager.tick(now_ms):
            if job is not None:
                job.run()
                job.done(now_ms)
    assert marks(files, B) == []
    remove_tree(files, f"{A}/t-0")
