"""Cutting a log back: what a follower does when its log has parted from its leader's.

The order matters for a crash in between. First whole segments above the target are renamed away,
the newest first, then the last remaining one is cut, then the recovery point is lowered and written
out. A crash leaves a log that ends somewhere between the target and its old end, without a hole,
and the owner truncates again.

All of it is durable before anything is appended. Were the cut not synced, a power cut could leave
pages of the old tail between pages of the new one, each batch valid by its checksum: a history that
never was. And what is written over the cut is not durable yet, so recovery has to look at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.replay import load_newest_snapshot, replay_segments

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog


def truncate_log(log: UnifiedLog, offset: int, now_ms: int) -> None:
    """Removes the batches with records at or above ``offset``, which is below the log end."""
    log.generation += 1
    if log.segments.first.base_offset > offset:
        restart_log(log, offset, now_ms, None)
        return
    doomed = [segment for segment in log.segments if segment.base_offset > offset]
    log.remove_segments(reversed(doomed), now_ms)
    log.directory.files.sync_directory(log.folder)
    log.segments.active.truncate_to(offset, now_ms)
    log.segments.active.file.sync()
    log.forget_positions()
    log.log_end_offset = offset
    log.leader_epochs.truncate_from_end(offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    _lower_recovery_point(log, offset)
    _rebuild_producer_state(log, now_ms)
    log.update_high_watermark(log.high_watermark)


def restart_log(log: UnifiedLog, offset: int, now_ms: int, log_start_offset: int | None) -> None:
    """Removes everything; the log goes on at ``offset``."""
    log.generation += 1
    for segment in reversed(list(log.segments)):
        log.segments.remove(segment)
        log.doom(segment, now_ms)
    log.forget_positions()
    log.new_segment(offset, now_ms)
    log.directory.files.sync_directory(log.folder)
    log.leader_epochs.clear()
    for snapshot_offset in list(log.snapshots.offsets):
        log.snapshots.delete(snapshot_offset)
    log.last_snapshot_offset = 0
    log.producer_state.clear(offset)
    log.log_end_offset = offset
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.local_log_start_offset = offset
    _lower_recovery_point(log, offset)
    log.update_high_watermark(offset)


def _lower_recovery_point(log: UnifiedLog, offset: int) -> None:
    if log.truncated_offset is None or offset < log.truncated_offset:
        log.truncated_offset = offset
    if log.recovery_point > offset:
        log.recovery_point = offset
        log.directory.checkpoint_recovery_points()


def _rebuild_producer_state(log: UnifiedLog, now_ms: int) -> None:
    state, end_offset = log.producer_state, log.log_end_offset
    # A snapshot does not know of decided transactions whose markers others may not have yet.
    unreplicated = {f: last for f, last in state.unreplicated.items() if last < end_offset}
    load_newest_snapshot(state, log.snapshots, log.log_start_offset, end_offset, now_ms)
    log.last_snapshot_offset = state.end_offset
    for _ in replay_segments(state, log.segments, log.log_start_offset, end_offset):
        pass
    state.unreplicated |= unreplicated
    log.take_snapshot()
