"""A log that goes on where remote storage ends: what a follower does when its leader has not got on
its disk what the follower lacks.

Everything local goes, and the log starts over after a remote segment. What records before it would
have said comes with that segment: the leader epochs up to it, and the producers with their last
sequence numbers and open transactions. The log starts where the leader's does, far below the first
local segment.

All of it is on stable storage before the log has its new end: epochs below the first segment could
not be found again by reading it. Until then the log is an empty one at its start, which the leader
sends to remote storage again, so that a crash only has it rebuilt once more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kaa.log.jobs import CheckpointJob
from kaa.log.names import LOG_START_OFFSET_CHECKPOINT_FILE
from kaa.log.producer_snapshots import decode_producer_snapshot
from kaa.log.truncation import PendingTruncation, restart_steps

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from kaa.log.leader_epochs import EpochEntry
    from kaa.log.log import UnifiedLog
    from kaa.log.producer_state import ProducerEntry
    from kaa.log.truncation import Step


class RemoteState(NamedTuple):
    """What comes with a remote segment."""

    # One above the last offset in the segment.
    next_offset: int
    epochs: Sequence[EpochEntry]
    producer_snapshot: bytes


def begin_rebuild(
    log: UnifiedLog, state: RemoteState, log_start_offset: int, now_ms: int
) -> PendingTruncation:
    """Rebuilds in steps, most of them for a thread. CorruptFileError if the state is damaged,
    before anything is touched.
    """
    if log.directory.offline_reason is not None:
        raise log.directory.storage_error()
    producers = decode_producer_snapshot("remote producer snapshot", state.producer_snapshot)
    steps = _rebuild_steps(log, state, producers, log_start_offset, now_ms)
    return PendingTruncation(log, steps)


def _rebuild_steps(
    log: UnifiedLog,
    state: RemoteState,
    producers: list[ProducerEntry],
    log_start_offset: int,
    now_ms: int,
) -> Generator[Step, None, None]:
    yield from restart_steps(log, log_start_offset, now_ms, None)
    for epoch, start_offset in state.epochs:
        if start_offset < state.next_offset:
            log.leader_epochs.assign(epoch, start_offset)
    log.leader_epochs.truncate_from_start(log_start_offset)
    log.producer_state.load(producers, state.next_offset, now_ms)
    log.take_snapshot()
    job = log.make_flush_job(log.log_end_offset, whole_active=False)
    try:
        yield job.run
    except GeneratorExit:
        # The disk has failed, or nobody needs the log any more.
        job.close(done=False)
        raise
    log.complete_flush(job, now_ms)
    directory = log.directory
    name, offsets = LOG_START_OFFSET_CHECKPOINT_FILE, directory.log_start_offsets()
    yield CheckpointJob(directory, name, offsets).run
    yield from _go_on_at(log, state.next_offset, now_ms)


def _go_on_at(log: UnifiedLog, offset: int, now_ms: int) -> Iterator[Step]:
    """Moves the end of an empty log."""
    empty = log.segments.active
    log.segments.remove(empty)
    # Before the new one, or what lies between the two would count as what is on the disk.
    empty.delete()
    log.new_segment(offset, now_ms)
    log.log_end_offset = log.local_log_start_offset = log.recovery_point = offset
    log.update_high_watermark(offset)
    yield partial(log.directory.files.sync_directory, log.folder)
