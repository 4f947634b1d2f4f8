"""Cutting a log back: what a follower does when its log has parted from its leader's.

The order matters for a crash in between. First whole segments above the target are renamed away,
the newest first, then the last remaining one is cut, then the recovery point is lowered and written
out. A crash leaves a log that ends somewhere between the target and its old end, without a hole,
and the owner truncates again.

All of it is durable before anything is appended. Were the cut not synced, a power cut could leave
pages of the old tail between pages of the new one, each batch valid by its checksum: a history that
never was. And what is written over the cut is not durable yet, so recovery has to look at it.

Much of it waits for the disk, and reading the producer state again may take long; and after a
failover there may be many logs to cut. So both come in steps, which a thread may carry out
(`PendingTruncation`): a step is a system call, or None, a moment to let others have their turn. The
log has its new end before the first step, so that nobody reads beyond it, and until the last one
is done nothing else is done to the log.
"""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from kaa.log.errors import StorageError
from kaa.log.jobs import CheckpointJob
from kaa.log.names import RECOVERY_POINT_CHECKPOINT_FILE
from kaa.log.replay import load_newest_snapshot, replay_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from kaa.log.log import UnifiedLog

    Step = Callable[[], None] | None


def truncate_to(log: UnifiedLog, offset: int, now_ms: int) -> bool:
    """Removes every batch with records at or above `offset`; whether there was any."""
    assert offset >= 0
    log.settle()
    if log.directory.offline_reason is not None:
        raise log.directory.storage_error()
    if offset >= log.log_end_offset:
        # A leader that was elected and wrote nothing left an epoch that others do not know.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    with log.storage():
        _carry_out(truncation_steps(log, offset, now_ms))
    return True


def begin_truncation(log: UnifiedLog, offset: int, now_ms: int) -> PendingTruncation | None:
    """The same in steps, most of them for a thread; None if there is nothing to remove."""
    if offset >= log.log_end_offset:
        truncate_to(log, offset, now_ms)
        return None
    if log.directory.offline_reason is not None:
        raise log.directory.storage_error()
    return PendingTruncation(log, truncation_steps(log, offset, now_ms))


def truncate_fully_and_start_at(
    log: UnifiedLog, offset: int, now_ms: int, log_start_offset: int | None = None
) -> None:
    """Removes everything; the log goes on at `offset`."""
    log.settle()
    if log.directory.offline_reason is not None:
        raise log.directory.storage_error()
    with log.storage():
        _carry_out(restart_steps(log, offset, now_ms, log_start_offset))


def begin_restart(log: UnifiedLog, offset: int, now_ms: int) -> PendingTruncation:
    """`truncate_fully_and_start_at` in steps."""
    if log.directory.offline_reason is not None:
        raise log.directory.storage_error()
    return PendingTruncation(log, restart_steps(log, offset, now_ms, None))


def _carry_out(steps: Iterator[Step]) -> None:
    for step in steps:
        if step is not None:
            step()


def truncation_steps(log: UnifiedLog, offset: int, now_ms: int) -> Generator[Step, None, None]:
    """Cuts a log back to `offset`, one system call per step. The log is consistent, and may be used
    again, only when the last step is done.
    """
    if log.segments.first.base_offset > offset:
        yield from restart_steps(log, offset, now_ms, None)
        return
    log.generation += 1
    log.log_end_offset = offset
    log.log_start_offset = min(log.log_start_offset, offset)
    log.local_log_start_offset = min(log.local_log_start_offset, offset)
    log.copied_offset = min(log.copied_offset, offset - 1)
    log.update_high_watermark(log.high_watermark)
    doomed = [segment for segment in log.segments if segment.base_offset > offset]
    log.remove_segments(reversed(doomed), now_ms)
    yield partial(log.directory.files.sync_directory, log.folder)
    active = log.segments.active
    active.truncate_to(offset, now_ms)
    log.forget_positions()
    log.leader_epochs.truncate_from_end(offset)
    with active.held():
        yield active.file.sync
    yield from _lower_recovery_point(log, offset)
    yield from _rebuild_producer_state(log, now_ms)
    log.update_high_watermark(log.high_watermark)


def restart_steps(
    log: UnifiedLog, offset: int, now_ms: int, log_start_offset: int | None
) -> Generator[Step, None, None]:
    """Empties a log, which then goes on at `offset`; one system call per step. Nothing else may be
    done to the log until the last step.
    """
    log.generation += 1
    for segment in reversed(list(log.segments)):
        log.segments.remove(segment)
        log.doom(segment, now_ms)
    log.forget_positions()
    log.new_segment(offset, now_ms)
    log.leader_epochs.clear()
    for snapshot_offset in list(log.snapshots.offsets):
        log.snapshots.delete(snapshot_offset)
    log.last_snapshot_offset = 0
    log.producer_state.clear(offset)
    log.log_end_offset = offset
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.local_log_start_offset = offset
    log.copied_offset = min(log.copied_offset, offset - 1)
    log.update_high_watermark(offset)
    yield partial(log.directory.files.sync_directory, log.folder)
    yield from _lower_recovery_point(log, offset)


def _lower_recovery_point(log: UnifiedLog, offset: int) -> Iterator[Step]:
    if log.truncated_offset is None or offset < log.truncated_offset:
        log.truncated_offset = offset
    if log.unfollowed_cut_offset is None or offset < log.unfollowed_cut_offset:
        log.unfollowed_cut_offset = offset
    if log.recovery_point > offset:
        log.recovery_point = offset
        directory = log.directory
        name, offsets = RECOVERY_POINT_CHECKPOINT_FILE, directory.recovery_points()
        yield CheckpointJob(directory, name, offsets).run


def _rebuild_producer_state(log: UnifiedLog, now_ms: int) -> Iterator[Step]:
    state, end_offset = log.producer_state, log.log_end_offset
    # A snapshot does not know of decided transactions whose markers others may not have yet.
    unreplicated = {f: last for f, last in state.unreplicated.items() if last < end_offset}
    load_newest_snapshot(state, log.snapshots, log.log_start_offset, end_offset, now_ms)
    log.last_snapshot_offset = state.end_offset
    for _ in replay_segments(state, log.segments, log.log_start_offset, end_offset):
        yield None
    state.unreplicated |= unreplicated
    log.take_snapshot()


class PendingTruncation:
    """A truncation that is under way. Made, settled and asked on the loop; its system calls run on
    the writer thread of the directory, if that has one.
    """

    __slots__ = ("_log", "_steps", "_waiters", "_work", "error", "is_settled")

    def __init__(self, log: UnifiedLog, steps: Generator[Step, None, None]) -> None:
        assert log.pending is None
        log.pending = self
        self._log = log
        self._steps = steps
        self._work: Future[None] | None = None
        self._waiters: list[Callable[[], None]] = []
        self.is_settled = False
        self.error: StorageError | None = None

    @property
    def is_needed(self) -> bool:
        """Whether anybody has a use for the log: not if it was deleted, or its disk has failed."""
        return not self._log.is_closed

    def when_settled(self, call: Callable[[], None]) -> None:
        self._waiters.append(call)

    def advance(self) -> Future[None] | None:
        """Goes on to the next step: the work of a thread, or None for a turn of the loop. Ask
        `is_settled` before each call.
        """
        self._finish_work()
        if not self.is_settled and not self.is_needed:
            self._settled()
        if self.is_settled:
            return None
        try:
            with self._log.storage():
                step = next(self._steps)
        except StopIteration:
            self._settled()
            return None
        except StorageError as error:
            self.error = error
            self._settled()
            return None
        writer = self._log.directory.writer
        if step is None:
            return None
        if writer is None:
            self._work = Future()
            try:
                step()
            except OSError as error:
                self._work.set_exception(error)
            else:
                self._work.set_result(None)
        else:
            self._work = writer.submit(step)
        return self._work

    def _finish_work(self) -> None:
        """Waits for what the thread does, if it does something."""
        work, self._work = self._work, None
        error = None if work is None else work.exception()
        if isinstance(error, FileNotFoundError) and self._log.is_closed:
            # The log was deleted meanwhile and its folder renamed; nobody needs it durable.
            return
        if error is not None:
            broken = error if isinstance(error, OSError) else OSError(repr(error))
            self.error = self._log.failed(broken)
            self._settled()

    def settle(self) -> None:
        """Carries out the rest, here and now."""
        while not self.is_settled:
            self.advance()

    def _settled(self) -> None:
        self.is_settled = True
        self._log.pending = None
        # What it holds in the middle of a step is given back.
        self._steps.close()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()
