"""Which segments may go: by age, by size, by the start of the log.

Segments go whole, from the oldest on, until one has to stay. None goes that holds records at or
above the high watermark, so the start of the log never passes it. The active segment goes too when
all of it has expired; a new, empty one takes its place.

The order is what makes it safe against a crash: the start of the log moves first, then files are
renamed from the oldest on, then unlinked after a delay. A crash leaves a shorter or an untouched
log, never a hole; and a start that was not checkpointed is found again, since the log starts at its
first segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.log import UnifiedLog
    from kaa.log.segment import Segment


def delete_old_segments(log: UnifiedLog, now_ms: int) -> int:
    """Applies the retention of the topic; returns how many segments went."""
    log.settle()
    deleted = _delete_below_start(log, now_ms)
    if log.config.delete:
        deleted += _delete_by_size(log, now_ms)
        deleted += _delete_by_age(log, now_ms)
    return deleted


def _delete_below_start(log: UnifiedLog, now_ms: int) -> int:
    def is_below(_: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= log.log_start_offset

    return _delete_while(log, now_ms, is_below)


def _delete_by_size(log: UnifiedLog, now_ms: int) -> int:
    retention_bytes = log.config.retention_bytes
    excess = log.size_in_bytes - retention_bytes
    if retention_bytes < 0 or excess <= 0:
        return 0

    def is_excess(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _delete_while(log, now_ms, is_excess)


def _delete_by_age(log: UnifiedLog, now_ms: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0

    def is_expired(segment: Segment, _: Segment | None) -> bool:
        return now_ms - segment.largest_timestamp > retention_ms

    return _delete_while(log, now_ms, is_expired)


def _delete_while(
    log: UnifiedLog, now_ms: int, may_go: Callable[[Segment, Segment | None], bool]
) -> int:
    doomed: list[Segment] = []
    segments = list(log.segments)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end_offset = log.log_end_offset if following is None else following.base_offset
        if following is None and segment.size == 0:
            break
        if end_offset > log.high_watermark or not may_go(segment, following):
            break
        doomed.append(segment)
    if not doomed:
        return 0
    if len(doomed) == len(segments):
        log.roll(now_ms)
    following = log.segments.higher(doomed[-1].base_offset)
    assert following is not None
    log.increment_log_start_offset(following.base_offset)
    log.remove_segments(doomed, now_ms)
    return len(doomed)
