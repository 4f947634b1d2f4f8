"""What to copy to the store and what to delete from it: decisions without IO.

**How far the store is.** The leader walks down its own leader epochs from the newest: the first
epoch of which the store has anything says how far. If the epoch ended here before that (the store
has records of a leader that lost them), only the part that is in this log counts.

**What is copied.** Closed segments from there on that lie wholly below the last stable offset, in
order. The active segment never is.

**What is deleted.** Whole remote segments, for one of four reasons, in this order:

| Reason | Segments | Log start |
|---|---|---|
| START | end below the log start offset | stays |
| SIZE | oldest first while local and remote bytes together exceed `retention.bytes` | moves |
| TIME | oldest first while older than `retention.ms` | moves |
| EPOCH | of epochs older than the oldest that this log knows | stays |

The oldest comes first by leader epoch and start offset, and the first segment that is kept ends a
reason, so that the log never gets a hole. A segment outside the epochs of this log is not in it:
its age does not matter. A segment whose deletion was interrupted is deleted again. One whose copy
was interrupted is deleted as soon as this leader does not copy it itself.
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kaa.tier.metadata.model import SegmentState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.model import EpochStart, SegmentMetadata
    from kaa.wire.primitives import Uuid

UNLIMITED = -1
NOTHING_COPIED = -1


class Reason(Enum):
    """Why a remote segment goes."""

    START = "it ends below the log start offset"
    SIZE = "the log is larger than retention.bytes"
    TIME = "it is older than retention.ms"
    EPOCH = "its leader epochs are no longer in the log"
    LEFTOVER = "its copy or deletion was interrupted"


class Closed(NamedTuple):
    """A closed local segment."""

    base_offset: int
    next_offset: int


class Deletion(NamedTuple):
    segment: SegmentMetadata
    reason: Reason


class Expiry(NamedTuple):
    """What is to be deleted, and where the log starts before that."""

    log_start_offset: int
    deletions: tuple[Deletion, ...]


class Retention(NamedTuple):
    """How much of a log is kept, local and remote together; -1 for no limit."""

    ms: int
    bytes: int


# --- copying


def copied_up_to(cache: RemoteLogCache, epochs: Sequence[EpochStart], log_end_offset: int) -> int:
    """The last offset of this log that the store has; -1 for none."""
    end = log_end_offset
    for epoch, start in reversed(epochs):
        highest = cache.highest_offset(epoch)
        if highest is not None:
            return min(highest, end - 1)
        end = start
    return NOTHING_COPIED


def to_copy(base_offsets: Sequence[int], from_offset: int, last_stable_offset: int) -> list[Closed]:
    """The closed segments to copy; `base_offsets` are of all local segments, rising."""
    pairs = pairwise(base_offsets)
    return [
        Closed(base, following)
        for base, following in pairs
        if following > from_offset and following <= last_stable_offset
    ]


def epochs_within(epochs: Iterable[EpochStart], start: int, end: int) -> tuple[EpochStart, ...]:
    """The epochs of the offsets from `start` up to `end`; the first begins at `start`."""
    found: list[EpochStart] = []
    for entry in epochs:
        if entry.offset >= end:
            break
        if entry.offset <= start:
            found = [entry._replace(offset=start)]
        else:
            found.append(entry)
    return tuple(found)


def first_remote(cache: RemoteLogCache, epochs: Iterable[EpochStart]) -> int | None:
    """The first offset of this log that the store has; None if it has nothing of it."""
    for epoch, _ in epochs:
        for segment in cache.segments_of_epoch(epoch):
            if segment.state == SegmentState.COPY_SEGMENT_FINISHED:
                return segment.start_offset
    return None


# --- deleting


def to_expire(
    cache: RemoteLogCache,
    epochs: Sequence[EpochStart],
    *,
    log_start_offset: int,
    log_end_offset: int,
    local_only_bytes: int,
    retention: Retention,
    now_ms: int,
    copying: Collection[Uuid] = (),
) -> Expiry:
    """What goes. `local_only_bytes` is what the store does not have; `copying` is under way."""
    lineage = _Lineage(epochs, log_end_offset)
    deletions: dict[Uuid, Deletion] = {}
    start = log_start_offset
    segments = _by_age(cache, epochs)
    kept_bytes = local_only_bytes + sum(one.size_bytes for one in segments)
    is_size_over = is_time_over = False
    for segment in segments:
        is_ours = lineage.holds(segment)
        reason = None
        if is_ours and segment.end_offset < start:
            reason = Reason.START
        elif is_ours and not is_size_over and _exceeds(kept_bytes, segment, retention):
            reason = Reason.SIZE
        elif is_ours and not is_time_over and _is_old(segment, retention, now_ms):
            reason = Reason.TIME
        if reason is None:
            # The first that is kept keeps all after it.
            is_size_over = is_time_over = is_ours or is_size_over
            continue
        deletions[segment.segment_id] = Deletion(segment, reason)
        kept_bytes -= segment.size_bytes
        start = max(start, segment.end_offset + 1)
    _add_leftovers(deletions, cache, epochs, copying)
    return Expiry(start, tuple(deletions.values()))


def _by_age(cache: RemoteLogCache, epochs: Sequence[EpochStart]) -> list[SegmentMetadata]:
    """The readable segments of this log's epochs, the oldest first, each once."""
    found: dict[Uuid, SegmentMetadata] = {}
    for epoch, _ in epochs:
        for segment in cache.segments_of_epoch(epoch):
            if segment.state == SegmentState.COPY_SEGMENT_FINISHED:
                found.setdefault(segment.segment_id, segment)
    return list(found.values())


def _exceeds(kept_bytes: int, segment: SegmentMetadata, retention: Retention) -> bool:
    """Whether the log is still large enough without the segment."""
    return retention.bytes != UNLIMITED and kept_bytes - segment.size_bytes >= retention.bytes


def _is_old(segment: SegmentMetadata, retention: Retention, now_ms: int) -> bool:
    return retention.ms != UNLIMITED and segment.max_timestamp_ms <= now_ms - retention.ms


def _add_leftovers(
    deletions: dict[Uuid, Deletion],
    cache: RemoteLogCache,
    epochs: Sequence[EpochStart],
    copying: Collection[Uuid],
) -> None:
    oldest = epochs[0].epoch if epochs else None
    for segment in cache.segments():
        if segment.segment_id in deletions or segment.segment_id in copying:
            continue
        if segment.state != SegmentState.COPY_SEGMENT_FINISHED:
            deletions[segment.segment_id] = Deletion(segment, Reason.LEFTOVER)
        elif oldest is not None and segment.leader_epochs[-1].epoch < oldest:
            deletions[segment.segment_id] = Deletion(segment, Reason.EPOCH)


class _Lineage:
    """The leader epochs of this log, with where each ends."""

    def __init__(self, epochs: Sequence[EpochStart], log_end_offset: int) -> None:
        ends = [start.offset for start in epochs[1:]] + [log_end_offset]
        self._ranges = {
            entry.epoch: (entry.offset, end) for entry, end in zip(epochs, ends, strict=True)
        }
        self._first = epochs[0] if epochs else None

    def holds(self, segment: SegmentMetadata) -> bool:
        """Whether every record of the segment is, or was before the start moved, in this log."""
        for epoch, start in _with_records(segment):
            known = self._ranges.get(epoch)
            if known is None:
                # Epochs before the first one that is known went with the start of the log.
                if self._first is None or epoch >= self._first.epoch:
                    return False
                continue
            begin, end = known
            is_first = self._first is not None and epoch == self._first.epoch
            if segment.end_of_epoch(epoch) >= end or (start < begin and not is_first):
                return False
        return True


def _with_records(segment: SegmentMetadata) -> Iterator[EpochStart]:
    """The epochs of a segment that have records in it: an epoch that begins where the next one does
    has none, and a log forgets it.
    """
    for entry, following in pairwise(segment.leader_epochs):
        if entry.offset < following.offset:
            yield entry
    yield segment.leader_epochs[-1]
