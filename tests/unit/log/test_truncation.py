"""Cutting a log back, and what a crash on the way leaves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kaa.log.append import BY_COORDINATOR, append_as_leader
from kaa.log.futures import rename_folder
from kaa.log.jobs import FlushLogJob
from kaa.log.leader_epochs import EpochEntry
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.log.sim_files import CrashError, Fault, SimFiles
from kaa.log.truncation import (
    begin_restart,
    begin_truncation,
    truncate_fully_and_start_at,
    truncate_to,
)
from kaa.records.batch import RecordBatch
from tests.unit.log.batches import ABORT, batch, marker
from tests.unit.log.logs import SMALL, new_disk, new_log, purge, reload, stored_batches

LOG_END = FetchIsolation.LOG_END


def _filled(files: SimFiles | None = None, count: int = 30) -> UnifiedLog:
    """Batches of two records each; timestamps 1000, 1010, ..."""
    log = new_log(files or new_disk())
    for n in range(count):
        append_as_leader(log, batch(2, timestamp=1000 + 10 * n), leader_epoch=0, now_ms=n)
    return log


@pytest.mark.parametrize("offset", range(0, 60, 7))
def test_truncation_at_any_offset(offset: int) -> None:
    log = _filled()
    log.flush(now_ms=0)
    log.update_high_watermark(40)
    append_as_leader(log, batch(1), leader_epoch=3, now_ms=0)
    assert truncate_to(log, offset, now_ms=0)
    end = offset - offset % 2
    assert [b.base_offset for b in stored_batches(log)] == list(range(0, end, 2))
    assert log.log_end_offset == offset
    assert log.recovery_point == offset
    assert log.high_watermark == min(40, offset)
    assert log.leader_epochs.entries == ([EpochEntry(0, 0)] if offset else [])
    append_as_leader(log, batch(1), leader_epoch=4, now_ms=0)
    assert stored_batches(log)[-1].base_offset == offset


def test_truncation_above_the_end_forgets_empty_epochs() -> None:
    log = _filled(count=2)
    log.leader_epochs.assign(5, 4)
    assert not truncate_to(log, 4, now_ms=0)
    assert log.leader_epochs.entries == [EpochEntry(0, 0)]


def test_truncation_below_the_first_segment_starts_over() -> None:
    log = new_log(new_disk())
    truncate_fully_and_start_at(log, 100, now_ms=0)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    truncate_to(log, 50, now_ms=0)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert log.segments.base_offsets == [50]


class Later(ThreadPoolExecutor):
    """A thread that begins when the test says so."""

    def __init__(self) -> None:
        super().__init__(1)
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, partial(fn, *args, **kwargs)))
        return future

    def begin(self) -> None:
        for future, call in self.waiting:
            try:
                future.set_result(call())
            except OSError as error:
                future.set_exception(error)
        self.waiting.clear()


@pytest.mark.parametrize("offset", [0, 10, 500])
def test_a_log_that_is_deleted_while_it_is_cut_costs_no_directory(offset: int) -> None:
    """Its folder has another name when the thread comes to it, at whichever step."""
    for count in range(8):
        log = _filled()
        log.flush(now_ms=0)
        log.directory.writer = later = Later()
        cut = begin_restart(log, 500, 0) if offset == 500 else begin_truncation(log, offset, 0)
        assert cut is not None
        steps = 0
        while steps < count and not cut.is_settled:
            steps += 1
            cut.advance()
            later.begin()
        if steps < count:
            break
        cut.advance()
        log.close_when_settled()
        rename_folder(log, "topic-0.0123456789abcdef-delete")
        while not cut.is_settled:
            later.begin()
            cut.advance()
        assert log.directory.is_online, (count, cut.error)
        assert log.is_closed
    else:
        pytest.fail("it has more steps")


def test_a_flush_that_ends_while_the_log_is_cut_leaves_it_the_files_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log is cut into a segment that was sealed when the flush began."""
    monkeypatch.setattr("kaa.log.replay.SCAN_WINDOW_BYTES", 100)
    is_over, count = False, 0
    while not is_over:
        count += 1
        log = new_log(new_disk(), replace(SMALL, segment_bytes=2000))
        sequence = 0
        while len(log.segments) < 3:
            content = batch(2, producer_id=7, producer_epoch=0, sequence=sequence)
            append_as_leader(log, content, leader_epoch=0, now_ms=0)
            sequence += 2
        end = log.segments.active.base_offset - 4
        job = FlushLogJob(log)
        job.run()
        log.directory.writer = later = Later()
        cut = begin_truncation(log, end, 0)
        assert cut is not None
        for step in range(1, count + 1):
            cut.advance()
            if step == count:
                job.done(0)
            later.begin()
        is_over = cut.is_settled
        while not cut.is_settled:
            cut.advance()
            later.begin()
        assert log.directory.is_online, (count, cut.error)
        assert [segment.references for segment in log.segments] == [0] * len(log.segments)
        assert log.producer_state.producers[7].last_sequence == end - 1
    assert count > 5


def test_starting_over() -> None:
    files = new_disk()
    log = _filled(files)
    truncate_fully_and_start_at(log, 500, now_ms=0, log_start_offset=400)
    assert log.segments.base_offsets == [500]
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (400, 500, 500)
    assert log.snapshots.offsets == []
    purge(log, 59_999)
    assert any(name.endswith(".deleted") for name in files.list_directory("/data/topic-0"))
    purge(log, 60_000)
    assert files.list_directory("/data/topic-0") == [
        "00000000000000000500.index",
        "00000000000000000500.log",
        "00000000000000000500.timeindex",
        "partition.metadata",
    ]


def test_truncation_takes_producers_back() -> None:
    log = new_log(new_disk())
    for n in range(30):
        content = batch(1, producer_id=7, producer_epoch=0, sequence=n)
        append_as_leader(log, content, leader_epoch=0, now_ms=0)
    truncate_to(log, 12, now_ms=0)
    entry = log.producer_state.producers[7]
    assert entry.last_sequence == 11
    again = batch(1, producer_id=7, producer_epoch=0, sequence=12)
    assert append_as_leader(log, again, leader_epoch=0, now_ms=0).first_offset == 12


def test_readers_survive_truncation_and_removal() -> None:
    files = new_disk()
    log = _filled(files)
    result = log.read(50, bytes_max=10**6, isolation=LOG_END)
    assert result.region is not None
    truncate_fully_and_start_at(log, 0, now_ms=0)
    purge(log, 10**9)
    assert RecordBatch(result.region.read()).base_offset == 50
    result.region.release()
    log.close()
    assert files.open_handles == 0


def test_decided_transactions_above_the_high_watermark_stay_unstable() -> None:
    log = new_log(new_disk())
    append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    content = batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    append_as_leader(log, content, leader_epoch=0, now_ms=0)
    end = marker(ABORT, 7, 0)
    append_as_leader(log, end, leader_epoch=0, now_ms=0, source=BY_COORDINATOR)
    for _ in range(20):
        append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    log.update_high_watermark(2)
    truncate_to(log, 20, now_ms=0)
    assert log.last_stable_offset == 1
    log.update_high_watermark(3)
    assert log.last_stable_offset == 3


@pytest.mark.parametrize("start_over", [False, True])
def test_a_crash_at_every_step_leaves_a_prefix_without_a_hole(start_over: bool) -> None:
    for crash_at in range(100):
        files = new_disk()
        log = _filled(files)
        log.flush(now_ms=0)
        log.directory.checkpoint_recovery_points()
        old = [bytes(b.view) for b in stored_batches(log)]
        files.crash_at = len(files.history) + crash_at
        appended: list[bytes] = []
        try:
            if start_over:
                truncate_fully_and_start_at(log, 30, now_ms=0)
            else:
                truncate_to(log, 30, now_ms=0)
            for n in range(10):
                content = batch(2, timestamp=5000 + n)
                append_as_leader(log, content, leader_epoch=1, now_ms=0)
                appended.append(bytes(content))
            finished = True
        except CrashError:
            finished = False
        for mode, seed in (("kill", 0), ("lost", 0), ("torn", crash_at), ("torn", crash_at + 1)):
            after = files.restart(mode, seed=seed)  # type: ignore[arg-type]
            found = [bytes(b.view) for b in stored_batches(reload(after))]
            new = [*([] if start_over else old[:15]), *appended]
            # The batch whose write was interrupted may be there as well.
            is_new_prefix = found[: len(new)] == new[: len(found)] and len(found) <= len(new) + 1
            assert is_new_prefix or found == old[: len(found)]
            names = after.list_directory("/data/topic-0")
            assert not [name for name in names if name.endswith(".deleted")]
        if finished:
            return
    pytest.fail("the truncation never finished")


# --- in steps, for a thread


def test_steps_end_where_the_whole_does() -> None:
    whole, stepped = _filled(), _filled()
    truncate_to(whole, 31, now_ms=0)
    with ThreadPoolExecutor(1) as writer:
        stepped.directory.writer = writer
        pending = begin_truncation(stepped, 31, now_ms=0)
        assert pending is not None
        turns = 0
        while not pending.is_settled:
            # Nobody reads beyond the new end meanwhile.
            pending.advance()
            assert stepped.log_end_offset == 31
            turns += 1
    assert turns > 2
    assert pending.error is None
    assert stepped.pending is None
    kept = [bytes(found.view) for found in stored_batches(whole)]
    assert [bytes(found.view) for found in stored_batches(stepped)] == kept
    assert stepped.leader_epochs.entries == whole.leader_epochs.entries
    assert stepped.producer_state.end_offset == whole.producer_state.end_offset
    assert stepped.recovery_point == whole.recovery_point


def test_nothing_to_cut_is_nothing_to_do() -> None:
    log = _filled(count=2)
    assert begin_truncation(log, 4, now_ms=0) is None
    assert log.pending is None


def test_an_append_waits_for_the_truncation() -> None:
    log = _filled()
    told: list[int] = []
    pending = begin_truncation(log, 31, now_ms=0)
    assert pending is not None
    pending.when_settled(lambda: told.append(1))
    pending.advance()
    info = append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    assert (pending.is_settled, told, info.first_offset) == (True, [1], 31)


def test_starting_over_in_steps() -> None:
    log = _filled()
    pending = begin_restart(log, 500, now_ms=0)
    pending.settle()
    assert (log.log_start_offset, log.log_end_offset, log.pending) == (500, 500, None)


def test_a_disk_that_fails_in_a_step() -> None:
    for fault in (Fault("sync_directory", "topic-0"), Fault("sync", ".log")):
        files = new_disk()
        log = _filled(files)
        files.faults.append(fault)
        pending = begin_truncation(log, 31, now_ms=0)
        assert pending is not None
        pending.settle()
        assert pending.error is not None
        assert not log.directory.is_online
        assert log.pending is None


@pytest.mark.parametrize("name", [".log", ".snapshot"])
def test_a_disk_that_cannot_be_read_is_offline(name: str) -> None:
    files = new_disk()
    log = _filled(files)
    log.close_cleanly(now_ms=0)
    log = reload(files, clean=True)
    for segment in log.segments:
        segment.rest()
    files.faults.append(Fault("open", name, times=10**9))
    pending = begin_truncation(log, 59, now_ms=0)
    assert pending is not None
    pending.settle()
    assert pending.error is not None
    assert not log.directory.is_online
