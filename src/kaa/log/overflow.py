"""Splitting a segment whose offsets do not fit its indexes (KAFKA-6264).

Index entries hold offsets relative to the segment's name in 32 bits. Compaction in Kafka before
1.1.1 could put batches into one segment whose offsets span more than that. Kafka splits such a
segment when it loads it, and so do we:

1. The batches are copied, in order, into new segments under `.cleaned` names, each as far as its
   offsets fit, and synced.
2. They are renamed to `.swap`, the last first. As long as one `.cleaned` is left, the next
   start deletes all of them; the first is renamed last, and from then on they count.
3. The old segment is deleted, and the new ones get their names. A crash here is finished by the
   next start (`kaa.log.recovery`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import SCAN_WINDOW_BYTES
from kaa.log.index import RELATIVE_OFFSET_MAX
from kaa.log.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from kaa.log.scan import iter_headers
from kaa.log.segment import Segment
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.files import Files


class _Part(NamedTuple):
    """Batches of a segment that fit one segment."""

    base_offset: int
    # Last offset, greatest timestamp and size of each.
    extents: list[tuple[int, int, int]]


def split_segment(files: Files, segment: Segment) -> list[Segment]:
    """Puts segments that fit in place of one that does not, up to where it can be read. After an
    OSError, which is the caller's, nothing of either is open.
    """
    made: list[Segment] = []
    try:
        _fill(files, segment, made)
        _put_in_place(files, segment, made)
    except BaseException:
        for one in (segment, *made):
            one.close()
        raise
    return made


def _fill(files: Files, segment: Segment, made: list[Segment]) -> None:
    position = 0
    for part in _parts(segment):
        new = Segment.create(
            files, segment.folder, part.base_offset, segment.config, suffix=CLEANED_SUFFIX
        )
        made.append(new)
        position = _copy(segment, new, part, position)
    for entry in segment.transaction_index.entries:
        holding = [new for new in made if new.base_offset <= entry.last_offset]
        holding[-1].transaction_index.append(entry)
    modified_ms = segment.modified_ms
    for new in made:
        new.seal()
        for file in new.flush_indexes():
            file.sync()
        files.set_modified_ms(new.path(LOG_SUFFIX), modified_ms)


def _put_in_place(files: Files, segment: Segment, made: list[Segment]) -> None:
    for new in reversed(made):
        new.rename(SWAP_SUFFIX)
    files.sync_directory(segment.folder)
    segment.delete()
    for new in made:
        new.rename("")
        new.is_synced = True
    files.sync_directory(segment.folder)


def _parts(segment: Segment) -> Iterator[_Part]:
    part = _Part(segment.base_offset, [])
    next_offset = segment.base_offset
    try:
        for batch in iter_headers(segment.file, 0, segment.size, SCAN_WINDOW_BYTES):
            if not next_offset <= batch.base_offset <= batch.last_offset:
                break
            next_offset = batch.next_offset
            if batch.last_offset - part.base_offset > RELATIVE_OFFSET_MAX:
                yield part
                # One of an old magic tells where it starts only when it is read as a whole.
                part = _Part(batch.load(segment.file).base_offset, [])
            part.extents.append((batch.last_offset, batch.max_timestamp, batch.size_in_bytes))
    except CorruptRecordsError:
        # Recovery cuts a segment here as well.
        pass
    yield part


def _copy(source: Segment, target: Segment, part: _Part, position: int) -> int:
    """Copies the bytes of a part; returns where it ended in the source."""
    end = position + sum(size for _, _, size in part.extents)
    written = 0
    while position < end:
        piece = source.file.read(min(SCAN_WINDOW_BYTES, end - position), position)
        target.file.write([piece], written)
        position += len(piece)
        written += len(piece)
    target.commit(part.extents)
    return position
