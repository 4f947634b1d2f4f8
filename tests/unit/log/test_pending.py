"""Appends that another thread writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from kaa.log.append import append_as_follower, append_as_leader, prepare_leader_append
from kaa.log.config import LogConfig
from kaa.log.log import UnifiedLog
from kaa.log.pending import PendingAppend
from kaa.log.retention import delete_old_segments
from kaa.log.sim_files import Fault, Operation, SimFiles
from kaa.log.truncation import truncate_fully_and_start_at, truncate_to
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, new_disk, new_log, reload, stored_batches


class Writer(Executor):
    """A thread whose work is done when the test says so."""

    def __init__(self) -> None:
        self._works: list[tuple[Future[Any], Callable[..., Any]]] = []

    def submit(self, work: Callable[..., Any], /, *_: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._works.append((future, work))
        return future

    def work(self) -> None:
        for future, work in self._works:
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001  As an executor does it.
                future.set_exception(error)
        self._works = []


def begin(log: UnifiedLog, writer: Executor, count: int = 2) -> PendingAppend:
    log.directory.writer = writer
    plan = prepare_leader_append(log, batch(count), leader_epoch=0, now_ms=0)
    return PendingAppend(plan, now_ms=0)


def new_pending(
    files: SimFiles | None = None, config: LogConfig = SMALL
) -> tuple[UnifiedLog, Writer, PendingAppend]:
    log = new_log(files or new_disk(), config)
    writer = Writer()
    return log, writer, begin(log, writer)


def test_it_counts_when_it_is_settled() -> None:
    log, writer, pending = new_pending()
    heard: list[str] = []
    pending.when_written(lambda: heard.append("written"))
    pending.when_settled(lambda: heard.append("settled"))
    assert heard == []
    writer.work()
    assert (heard, log.log_end_offset, log.pending) == (["written"], 0, pending)
    pending.settle()
    assert (heard, log.log_end_offset, log.pending) == (["written", "settled"], 2, None)
    pending.settle()
    assert heard == ["written", "settled"]
    assert log.segments.active.references == 0
    assert [found.base_offset for found in stored_batches(log)] == [0]


def in_a_thread(log: UnifiedLog, work: Callable[[], object]) -> None:
    """Does `work` while a thread needs some time for a write that it holds."""
    begun, may_write = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        may_write.wait(10)

    with ThreadPoolExecutor(1) as writer:
        writer.submit(wait)
        assert begun.wait(10)
        begin(log, writer)
        threading.Timer(0.02, may_write.set).start()
        work()


def test_the_next_append_comes_behind_it() -> None:
    log = new_log(new_disk())
    in_a_thread(log, lambda: append_as_leader(log, batch(1), leader_epoch=0, now_ms=0))
    assert [found.base_offset for found in stored_batches(log)] == [0, 2]


@pytest.mark.parametrize("as_follower", [False, True])
def test_a_roll_comes_behind_it(as_follower: bool) -> None:
    log = new_log(new_disk(), LogConfig(segment_bytes=200))

    def append() -> None:
        if as_follower:
            records = batch(3, base_offset=2)
            append_as_follower(log, records, leader_epoch=0, now_ms=0)
        else:
            append_as_leader(log, batch(3), leader_epoch=0, now_ms=0)

    in_a_thread(log, append)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert [found.base_offset for found in stored_batches(log)] == [0, 2]


def test_a_clean_end_waits_for_it() -> None:
    files = new_disk()
    log = new_log(files)
    in_a_thread(log, lambda: log.close_cleanly(0))
    assert reload(files, clean=True).log_end_offset == 2


def test_an_end_without_a_flush_waits_for_it_too() -> None:
    files = new_disk()
    log = new_log(files)
    in_a_thread(log, log.close)
    assert log.is_closed
    assert reload(files).log_end_offset == 2


def test_a_truncation_cuts_it_off() -> None:
    log = new_log(new_disk())
    append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    in_a_thread(log, lambda: truncate_to(log, 1, now_ms=0))
    assert log.log_end_offset == 1
    in_a_thread(log, lambda: truncate_fully_and_start_at(log, 9, now_ms=0))
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)


def test_retention_leaves_it_alone() -> None:
    log = new_log(new_disk(), LogConfig(retention_ms=1))
    append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    log.update_high_watermark(1)
    in_a_thread(log, lambda: delete_old_segments(log, now_ms=1_000_000))
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)


def test_it_is_flushed_if_the_topic_wants_that() -> None:
    log, writer, pending = new_pending(config=LogConfig(flush_messages=1))
    writer.work()
    pending.settle()
    assert log.recovery_point == 2


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_an_error_of_the_disk_takes_the_directory_offline(operation: Operation) -> None:
    files = new_disk()
    log, writer, pending = new_pending(files, LogConfig(flush_messages=1))
    files.faults.append(Fault(operation, ".log"))
    writer.work()
    pending.settle()
    assert pending.error is not None
    assert not log.directory.is_online
    assert (log.log_end_offset, log.pending) == (0, None)
    assert log.segments.active.references == 0


def test_what_nobody_foresaw_takes_the_directory_offline_as_well() -> None:
    log = new_log(new_disk())

    class Broken(Executor):
        def submit(self, work: Callable[..., Any], /, *_: Any, **__: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(ValueError("surprise"))
            return future

    pending = begin(log, Broken())
    pending.settle()
    assert "surprise" in str(pending.error)
    assert not log.directory.is_online


def test_an_index_that_cannot_be_written_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.index.INDEX_BLOCK_BYTES", 0)
    files = new_disk()
    log, writer = new_log(files, LogConfig(index_interval_bytes=0)), Writer()
    for _ in range(3):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    pending = begin(log, writer)
    files.faults.append(Fault("write", ".index"))
    writer.work()
    pending.settle()
    assert pending.error is not None
    assert not log.directory.is_online
    assert (log.log_end_offset, log.pending) == (6, None)
    assert log.segments.active.references == 0
