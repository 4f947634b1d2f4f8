"""What logs need while they run."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random

import pytest

from kaa.log.append import append_as_leader
from kaa.log.files import read_whole
from kaa.log.jobs import FlushLogJob, Job
from kaa.log.manager import LogManager
from kaa.log.sim_files import Fault, SimFiles
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, run_jobs, stored_batches
from tests.unit.log.managers import (
    CONFIG,
    TOPIC_ID,
    A,
    B,
    filled,
    partition_of,
    start,
    started,
    stop,
)


def _jobs(manager: LogManager, now_ms: int) -> list[Job]:
    return [job for job in manager.tick(now_ms) if job is not None]


# --- start and stop


def test_ticks_flush_what_has_rolled() -> None:
    manager = started(SimFiles())
    log = filled(manager, partition_of(0), 20)
    jobs = _jobs(manager, 1)
    assert [type(job) for job in jobs] == [FlushLogJob]
    run_jobs(jobs, 1)
    assert log.recovery_point == 40
    assert _jobs(manager, 2) == []


def test_ticks_write_checkpoints() -> None:
    files = SimFiles()
    manager = started(files)
    log = filled(manager, partition_of(0))
    log.flush(now_ms=0)
    list(manager.tick(0))
    for now_ms in (4_999, 5_000, 60_000):
        run_jobs(manager.tick(now_ms), now_ms)
    assert read_whole(files, "/a/replication-offset-checkpoint") == b"0\n1\nt 0 20\n"
    assert read_whole(files, "/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 19\n"
    assert read_whole(files, "/a/log-start-offset-checkpoint") == b"0\n0\n"


def test_ticks_apply_retention_and_remove_files() -> None:
    files = SimFiles()
    manager = started(files, config=replace(SMALL, retention_ms=1000))
    log = filled(manager, partition_of(0), 20)
    list(manager.tick(0))
    run_jobs(manager.tick(300_000), 300_000)
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)
    assert any(n.endswith(".deleted") for n in files.list_directory("/a/t-0"))
    run_jobs(manager.tick(360_000), 360_000)
    assert not any(n.endswith(".deleted") for n in files.list_directory("/a/t-0"))


def test_a_round_of_retention_may_take_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.upkeep.TICK_RETAINED_LOGS_MAX", 2)
    manager = started(SimFiles(), config=replace(SMALL, retention_ms=1000))
    logs = [filled(manager, partition_of(number), 20) for number in range(5)]
    list(manager.tick(0))
    gone = []
    for now_ms in (300_000, 301_000, 302_000, 303_000):
        list(manager.tick(now_ms))
        gone.append(sum(log.log_start_offset == 40 for log in logs))
    assert gone == [2, 4, 5, 5]


def test_ticks_expire_producers() -> None:
    manager = started(SimFiles())
    log = manager.get_or_create(partition_of(0), None, now_ms=0)
    content = batch(1, producer_id=7, producer_epoch=0, sequence=0)
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    list(manager.tick(0))
    list(manager.tick(10**8))
    assert log.producer_state.producers == {}


def test_ticks_look_at_every_log_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.upkeep.TICK_LOGS_MAX", 3)
    manager = started(SimFiles())
    for n in range(7):
        filled(manager, partition_of(n), 20)
    seen = [len(_jobs(manager, n)) for n in range(3)]
    assert sum(seen) == 7
    assert max(seen) == 3


def test_a_failed_job_takes_its_directory_offline() -> None:
    files = SimFiles()
    manager = started(files, (A, B))
    filled(manager, partition_of(0), 20)
    files.faults.append(Fault("sync", "/a/t-0", errno.EIO))
    run_jobs(manager.tick(1), 1)
    assert [directory.is_online for directory in manager.directories] == [False, True]


def test_changed_settings_count_at_once() -> None:
    settings = [SMALL]
    manager = start(LogManager(SimFiles(), (A,), CONFIG, Random(3), lambda _: settings[0]))
    log = filled(manager, partition_of(0), 1)
    settings[0] = replace(SMALL, segment_bytes=10**6)
    manager.update_topic_config("other", [0])
    assert log.config is SMALL
    manager.update_topic_config("t", [0])
    for _ in range(30):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert len(log.segments) == 1
    assert len(stored_batches(log)) == 31


# --- time


def test_waiting_does_not_follow_the_date() -> None:
    """Somebody sets the clock back by an hour, and then ahead by a day."""
    files, steady = SimFiles(), [0]
    config = replace(SMALL, flush_ms=1_000, retention_ms=10_000)
    manager = LogManager(files, (A,), CONFIG, Random(3), lambda _: config, None, lambda: steady[0])
    start(manager)
    date_ms = 10**9
    log = manager.get_or_create(partition_of(0), TOPIC_ID, now_ms=date_ms)
    append_as_leader(log, batch(1, timestamp=date_ms), leader_epoch=0, now_ms=date_ms)
    log.update_high_watermark(1)
    run_jobs(manager.tick(date_ms), date_ms)
    doomed = filled(manager, partition_of(1))
    manager.delete([partition_of(1)], now_ms=date_ms)
    date_ms -= 3_600_000
    steady[0] = 59_999
    run_jobs(manager.tick(date_ms), date_ms)
    assert log.recovery_point == 1
    assert files.exists(doomed.folder)
    assert b"t 0 1" in read_whole(files, "/a/replication-offset-checkpoint")
    steady[0] = 60_000
    run_jobs(manager.tick(date_ms), date_ms)
    assert not files.exists(doomed.folder)
    date_ms += 86_400_000
    append_as_leader(log, batch(1, timestamp=date_ms), leader_epoch=0, now_ms=date_ms)
    run_jobs(manager.tick(date_ms), date_ms)
    assert log.recovery_point == 1, "no second has passed since the last flush"
    assert log.log_start_offset == 0, "nor the interval of retention"
    steady[0] = 300_000
    run_jobs(manager.tick(date_ms), date_ms)
    assert log.recovery_point == 2


def test_producers_are_not_forgotten_because_the_date_is_set_ahead() -> None:
    files, steady = SimFiles(), [0]
    manager = LogManager(files, (A,), CONFIG, Random(3), lambda _: SMALL, None, lambda: steady[0])
    start(manager)
    date_ms = 10**9
    log = manager.get_or_create(partition_of(0), TOPIC_ID, now_ms=date_ms)
    sent = batch(1, timestamp=date_ms, producer_id=7, producer_epoch=0, sequence=0)
    append_as_leader(log, sent, leader_epoch=0, now_ms=date_ms)
    run_jobs(manager.tick(date_ms), date_ms)
    expiration_ms = CONFIG.producer_id_expiration_ms
    for steady[0] in (1_000, 700_000, expiration_ms - 1):
        run_jobs(manager.tick(date_ms + 2 * expiration_ms + steady[0]), date_ms)
        assert list(log.producer_state.producers) == [7]
    steady[0] = expiration_ms + 700_000
    run_jobs(manager.tick(date_ms + 2 * expiration_ms + steady[0]), date_ms)
    assert list(log.producer_state.producers) == []


def test_a_deletion_writes_no_checkpoint_at_once() -> None:
    files = SimFiles()
    manager = started(files)
    for number in range(20):
        filled(manager, partition_of(number), 1)
    before = [step for step in files.history if step[0] == "sync"]
    manager.delete([partition_of(number) for number in range(20)], now_ms=0)
    assert [step for step in files.history if step[0] == "sync"] == before
    run_jobs(manager.tick(0), 0)
    assert read_whole(files, "/a/recovery-point-offset-checkpoint") == b"0\n0\n"


def test_a_successor_takes_nothing_from_the_checkpoints_of_a_deleted_log() -> None:
    files = SimFiles()
    manager = started(files)
    log = filled(manager, partition_of(0))
    log.flush(now_ms=0)
    directory = manager.delete_records(partition_of(0), 7)
    assert directory is not None
    run_jobs(manager.checkpoint_starts(directory), 0)
    manager.delete([partition_of(0)], now_ms=0)
    again = filled(manager, partition_of(0))
    assert again.log_start_offset == 0
    log = started(files.restart("kill")).logs[partition_of(0)]
    assert (log.log_start_offset, log.log_end_offset) == (0, 20)


def test_very_many_logs_are_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.upkeep.LOGS_PER_SLICE_MAX", 2)
    monkeypatch.setattr("kaa.log.jobs.LOGS_PER_SLICE_MAX", 2)
    files = SimFiles()
    manager = started(files)
    for number in range(7):
        filled(manager, partition_of(number), 1)
    list(manager.tick(0))
    steps = list(manager.tick(60_000))
    assert sum(step is None for step in steps) >= 3 * 3
    run_jobs(steps, 60_000)
    content = read_whole(files, "/a/recovery-point-offset-checkpoint")
    assert content.startswith(b"0\n7\n")


def test_a_log_deleted_between_two_slices_is_not_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.log.upkeep.LOGS_PER_SLICE_MAX", 2)
    monkeypatch.setattr("kaa.log.jobs.LOGS_PER_SLICE_MAX", 2)
    files = SimFiles()
    manager = started(files)
    for number in range(4):
        filled(manager, partition_of(number), 1)
    list(manager.tick(0))
    steps = manager.tick(60_000)
    assert next(steps) is None
    manager.delete([partition_of(0)], now_ms=60_000)
    run_jobs(steps, 60_000)
    assert b"t 0 " not in read_whole(files, "/a/recovery-point-offset-checkpoint")


@pytest.mark.parametrize("fault", [Fault("open", "timeindex"), Fault("size", "timeindex")])
def test_retention_that_cannot_read_takes_its_directory_offline_alone(fault: Fault) -> None:
    files, config = SimFiles(), replace(SMALL, retention_ms=1000)
    manager = started(files, ("/a", "/b"), config=config)
    for number in range(2):
        filled(manager, partition_of(number), 20)
    stop(manager)
    manager = started(files, ("/a", "/b"), config=config)
    first, second = (manager.logs[partition_of(number)] for number in range(2))
    list(manager.tick(0))
    files.faults = [replace(fault, path_part="/a/t-0/00000000000000000000.timeindex")]
    run_jobs(manager.tick(300_000), 300_000)
    assert not first.directory.is_online
    assert second.directory.is_online
    assert (second.log_start_offset, second.log_end_offset) == (40, 40)
