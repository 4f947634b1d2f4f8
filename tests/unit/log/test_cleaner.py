"""Which log is compacted, when, and how the progress is kept."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from kaa.log.append import BY_COORDINATOR, append_as_leader
from kaa.log.cleaner import LogToClean, offset_map_bytes
from kaa.log.compaction import CompactionRange
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.files import read_whole
from kaa.log.manager import LogManager
from kaa.log.sim_files import Fault, SimFiles
from kaa.log.truncation import truncate_to
from kaa.model.topics import TopicPartition
from tests.unit.log.batches import ABORT, batch, marker
from tests.unit.log.logs import SMALL, run_jobs, stored_records

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=0)
CONFIG = LogManagerConfig(transaction_partition_verification_enable=False)
A = TopicPartition("t", 0)
B = TopicPartition("t", 1)


def _manager(
    files: SimFiles, config: LogConfig = COMPACTED, manager_config: LogManagerConfig = CONFIG
) -> LogManager:
    manager = LogManager(files, ("/d",), manager_config, Random(3), lambda _: config)
    manager.lock()
    for _ in manager.start(now_ms=0):
        pass
    return manager


def _fill(
    manager: LogManager, partition: TopicPartition, count: int, *, timestamp: int = 1000
) -> UnifiedLog:
    """Batches of one of three keys."""
    log = manager.get_or_create(partition, None, now_ms=0)
    for n in range(count):
        content = batch([(b"k%d" % (n % 3), b"%d" % n)], timestamp=timestamp + n)
        append_as_leader(log, content, leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


def _due(manager: LogManager, now_ms: int) -> list[LogToClean]:
    return [found for found in manager.cleaner.find_due(now_ms) if found is not None]


def _work(manager: LogManager, now_ms: int = 0) -> None:
    with closing(manager.cleaner.work(now_ms)) as steps:
        for job in steps:
            run_jobs([job], now_ms)


def test_work_cleans_what_is_dirty_and_notes_where_it_ended() -> None:
    files = SimFiles()
    manager = _manager(files)
    log = _fill(manager, A, 50)
    active = log.segments.active.base_offset
    _work(manager)
    assert len(stored_records(log)) == 3 + 50 - active
    checkpoint = read_whole(files, "/d/cleaner-offset-checkpoint")
    assert checkpoint == b"0\n1\nt 0 %d\n" % active
    examined = manager.cleaner.examine(log, now_ms=0)
    assert examined.dirty.first_dirty_offset == active
    assert not examined.is_due
    manager.abandon()
    manager = _manager(files.restart("kill"))
    manager.logs[A].update_high_watermark(50)
    assert manager.cleaner.examine(manager.logs[A], 0).dirty.first_dirty_offset == active


def test_gaps_of_compaction_outlive_its_policy() -> None:
    files = SimFiles()
    manager = _manager(files)
    log = _fill(manager, A, 50)
    active = log.segments.active.base_offset
    _work(manager)
    kept = stored_records(log)
    assert log.segments.first.size == 0, "the first segment is empty, and a gap follows it"
    assert log.segments.base_offsets[1] <= active
    # The policy changes, and the broker ends before the recovery point is written again.
    manager.abandon()
    manager = _manager(files.restart("kill"), SMALL)
    assert manager.logs[A].log_end_offset == 50
    assert stored_records(manager.logs[A]) == kept


def test_only_compacted_logs_are_cleaned() -> None:
    manager = _manager(SimFiles(), SMALL)
    _fill(manager, A, 50)
    assert _due(manager, 0) == []


def test_the_cleaner_can_be_switched_off() -> None:
    manager = _manager(SimFiles(), manager_config=replace(CONFIG, log_cleaner_enable=False))
    _fill(manager, A, 50)
    assert _due(manager, 0) == []


def test_both_policies_together() -> None:
    both = replace(COMPACTED, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    manager = _manager(SimFiles(), both)
    log = _fill(manager, A, 50)
    _work(manager)
    assert len(stored_records(log)) < 50
    run_jobs(manager.tick(0), 0)
    run_jobs(manager.tick(10**6), 10**6)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_the_dirtiest_goes_first_above_the_ratio() -> None:
    manager = _manager(SimFiles())
    for partition in (A, B):
        _fill(manager, partition, 50)
    _work(manager)
    _fill(manager, A, 20)
    _fill(manager, B, 50)
    found = {to_clean.log.partition: to_clean for to_clean in _due(manager, 0)}
    assert found[B].dirty_ratio > found[A].dirty_ratio > 0.5
    for log in manager.logs.values():
        log.update_config(replace(COMPACTED, min_cleanable_dirty_ratio=0.99))
    assert _due(manager, 0) == []


def test_young_records_stay() -> None:
    manager = _manager(SimFiles(), replace(COMPACTED, min_compaction_lag_ms=1000))
    log = _fill(manager, A, 50)
    assert manager.cleaner.examine(log, now_ms=1500).dirty.first_uncleanable_offset == 0
    segment = list(log.segments)[2]
    now_ms = segment.largest_timestamp + 999
    dirty = manager.cleaner.examine(log, now_ms).dirty
    assert dirty.first_uncleanable_offset == segment.base_offset
    dirty = manager.cleaner.examine(log, 10**6).dirty
    assert dirty.first_uncleanable_offset == log.segments.active.base_offset


def test_overdue_records_are_cleaned_below_the_ratio() -> None:
    config = replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    manager = _manager(SimFiles(), config)
    _fill(manager, A, 50)
    assert _due(manager, 2000) == []
    (found,) = _due(manager, 2001)
    assert found.is_overdue


def test_undecided_transactions_are_not_touched() -> None:
    manager = _manager(SimFiles())
    log = _fill(manager, A, 20)
    content = batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    _fill(manager, A, 40)
    dirty = manager.cleaner.examine(log, now_ms=0).dirty
    segments = [s.base_offset for s in log.segments if s.base_offset <= 20]
    assert 0 < dirty.first_uncleanable_offset == segments[-1] <= 20


def test_a_truncated_log_is_dirty_again() -> None:
    manager = _manager(SimFiles())
    log = _fill(manager, A, 50)
    _work(manager)
    truncate_to(log, 10, now_ms=0)
    _fill(manager, A, 60)
    assert manager.cleaner.examine(log, now_ms=0).dirty.first_dirty_offset == 10
    log.increment_log_start_offset(20)
    assert manager.cleaner.examine(log, now_ms=0).dirty.first_dirty_offset == 20


def test_a_deleted_log_leaves_no_progress_to_its_successor() -> None:
    files = SimFiles()
    manager = _manager(files)
    _fill(manager, A, 50)
    _work(manager)
    manager.delete([A], now_ms=0)
    log = _fill(manager, A, 60)
    assert read_whole(files, "/d/cleaner-offset-checkpoint") == b"0\n0\n"
    assert manager.cleaner.examine(log, now_ms=0).dirty.first_dirty_offset == 0


def test_a_damaged_log_is_left_alone_and_others_go_on() -> None:
    files = SimFiles()
    manager = _manager(files)
    _fill(manager, A, 50)
    log = _fill(manager, B, 50)
    files.flip_bits(f"/d/t-0/{0:020d}.log", 80)
    _work(manager)
    assert manager.cleaner.uncleanable == {A}
    assert len(stored_records(log)) < 50
    assert [to_clean.log.partition for to_clean in _due(manager, 0)] == []


def test_retention_waits_for_a_round() -> None:
    both = replace(COMPACTED, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    manager = _manager(SimFiles(), both)
    log = _fill(manager, A, 50)
    run_jobs(manager.tick(0), 0)
    steps = manager.cleaner.work(0)
    next(steps)
    assert log.is_cleaning
    run_jobs(manager.tick(10**6), 10**6)
    assert log.log_start_offset == 0
    steps.close()
    run_jobs(manager.tick(2 * 10**6), 2 * 10**6)
    assert log.log_start_offset == 50


def test_the_map_takes_no_more_than_it_needs_or_may() -> None:
    assert offset_map_bytes(CONFIG, CompactionRange(100, 110)) == 24 * 64
    assert offset_map_bytes(CONFIG, CompactionRange(100, 9100)) == 24 * 10_001
    assert offset_map_bytes(CONFIG, CompactionRange(0, 10**12)) == 128 * 1024 * 1024


def test_a_small_buffer_takes_several_rounds() -> None:
    config = replace(CONFIG, log_cleaner_dedupe_buffer_size=24 * 4)
    manager = _manager(SimFiles(), manager_config=config)
    log = manager.get_or_create(A, None, now_ms=0)
    for n in range(60):
        content = batch([(b"k%d" % (n % 6), b"%d" % n)])
        append_as_leader(log, content, leader_epoch=0, now_ms=0)
    log.update_high_watermark(60)
    offsets = []
    for _ in range(60):
        offsets.append(manager.cleaner.examine(log, 0).dirty.first_dirty_offset)
        _work(manager)
    assert offsets == sorted(offsets)
    assert len(set(offsets)) > 5
    active = log.segments.active.base_offset
    kept = [record.offset for record in stored_records(log) if record.offset < active]
    assert kept[-6:] == list(range(active - 6, active))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("open", ".log"),
        Fault("read", ".log"),
        Fault("read", ".log", skip=3),
        Fault("read", ".log", skip=6),
        Fault("read", "index"),
        Fault("size", "index"),
    ],
    ids=lambda fault: f"{fault.operation} {fault.path_part} {fault.skip}",
)
def test_a_disk_that_cannot_be_read_costs_its_directory_alone(fault: Fault) -> None:
    files = SimFiles()
    _close(_filled_with_an_abort(_manager(files)))
    manager = _manager(files)
    manager.logs[A].update_high_watermark(100)
    files.faults = [fault]
    _work(manager, now_ms=10**9)
    log = manager.logs[A]
    assert not log.directory.is_online
    assert not log.is_cleaning
    assert A not in manager.cleaner.uncleanable
    log.close()
    assert not [path for path in files.open_paths() if "/t-0/" in path]
    _work(manager, now_ms=10**9)


def _filled_with_an_abort(manager: LogManager) -> LogManager:
    log = _fill(manager, A, 6)
    content = batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    append_as_leader(log, marker(ABORT, 7, 0), leader_epoch=0, now_ms=0, source=BY_COORDINATOR)
    _fill(manager, A, 20)
    return manager


def _close(manager: LogManager) -> None:
    for _ in manager.shutdown(now_ms=0, broker_epoch=1):
        pass
