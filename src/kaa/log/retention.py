"""Which segments may go: by age, by size, by the start of the log.

Segments go whole, from the oldest on, until one has to stay. None goes that holds records at or
above the high watermark, so the start of the log never passes it. The active segment goes too when
all of it has expired; a new, empty one takes its place.

A tiered log keeps a short local tail: `local.retention.ms` and `local.retention.bytes` count, and a
segment goes only once it was copied. That moves the local start of the log. Where the log itself
starts is decided by the expiry of remote segments (`kaa.tier.plan`). The active segment stays until
it is closed by its size or age and copied.

A log that loses hundreds of segments at once loses a few at a time, from the oldest on: the caller
gives others a turn and goes on.

The order is what makes it safe against a crash: the start of the log moves first, then files are
renamed from the oldest on, then unlinked after a delay. A crash leaves a shorter or an untouched
log, never a hole; and a start that was not checkpointed is found again, since the log starts at its
first segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import SEGMENTS_REMOVED_PER_TURN_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.log import UnifiedLog
    from kaa.log.segment import Segment


def delete_old_segments(log: UnifiedLog, now_ms: int) -> int:
    """Applies the retention of the topic; returns how many segments went. If they are
    SEGMENTS_REMOVED_PER_TURN_MAX, more may be due.
    """
    log.settle()
    count_max = SEGMENTS_REMOVED_PER_TURN_MAX
    deleted = _delete_below_start(log, now_ms, count_max)
    # Without a policy everything is kept, but of a tiered log not on this disk.
    if log.config.delete or (log.config.copies_remotely and not log.config.compact):
        deleted += _delete_by_size(log, now_ms, count_max - deleted)
        deleted += _delete_by_age(log, now_ms, count_max - deleted)
    return deleted


def _delete_below_start(log: UnifiedLog, now_ms: int, count_max: int) -> int:
    def is_below(_: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= log.log_start_offset

    return _delete_while(log, now_ms, count_max, is_below)


def _delete_by_size(log: UnifiedLog, now_ms: int, count_max: int) -> int:
    retention_bytes = log.config.kept_bytes
    excess = log.size_in_bytes - retention_bytes
    if retention_bytes < 0 or excess <= 0:
        return 0

    def take_excess(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _delete_while(log, now_ms, count_max, take_excess)


def _delete_by_age(log: UnifiedLog, now_ms: int, count_max: int) -> int:
    retention_ms = log.config.kept_ms
    if retention_ms < 0:
        return 0

    def is_expired(segment: Segment, _: Segment | None) -> bool:
        return now_ms - segment.largest_timestamp > retention_ms

    return _delete_while(log, now_ms, count_max, is_expired)


def _is_remote(log: UnifiedLog, end_offset: int) -> bool:
    """Whether the disk may forget what lies before the offset. Its leader epochs stay, and have to
    be on stable storage by then, since nothing else tells them.
    """
    if end_offset <= log.log_start_offset:
        return True
    return end_offset - 1 <= log.copied_offset and end_offset <= log.recovery_point


def _delete_while(
    log: UnifiedLog,
    now_ms: int,
    count_max: int,
    may_go: Callable[[Segment, Segment | None], bool],
) -> int:
    doomed: list[Segment] = []
    segments = list(log.segments)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end_offset = log.log_end_offset if following is None else following.base_offset
        if len(doomed) == count_max or (following is None and segment.size == 0):
            break
        if end_offset > log.high_watermark or not may_go(segment, following):
            break
        if log.config.copies_remotely and not _is_remote(log, end_offset):
            break
        doomed.append(segment)
    if not doomed:
        return 0
    if len(doomed) == len(segments):
        log.roll(now_ms)
    following = log.segments.higher(doomed[-1].base_offset)
    assert following is not None
    if log.config.copies_remotely:
        log.local_log_start_offset = max(log.local_log_start_offset, following.base_offset)
    else:
        log.increment_log_start_offset(following.base_offset)
    log.remove_segments(doomed, now_ms)
    return len(doomed)
