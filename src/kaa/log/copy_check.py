"""Reading a copy that was found at a start, before it may take the place of its source.

A copy that was made in this life was checked batch by batch as it was appended. Of one that was
found, a clean start reads no more than the end, and any other start no more than what was not
durable. What changed on the disk meanwhile would be swapped in, and the source deleted. So each
batch is looked at once:

- its size, magic and checksum;
- its offsets, which rise, within the bounds that the names of segments set;
- its leader epoch, which no checksum covers, beside the epochs that are known of the copy.

One segment after the other is opened, and read through a window (`kaa.log.scan`), on any thread; a
call of `read` ends after some batches, so that it is short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import COPY_BATCHES_PER_SLICE_MAX
from kaa.log.scan import iter_valid, no_batch
from kaa.log.segment import SegmentRegion
from kaa.records.batch import NO_PARTITION_LEADER_EPOCH
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.log import UnifiedLog
    from kaa.log.scan import AnyStoredBatch
    from kaa.log.segment import Segment


class CopyCheck:
    """Reads a copy to which nothing is written meanwhile. Call `next_segment` and `close` on the
    loop, and never while `read` runs.
    """

    def __init__(self, copy: UnifiedLog) -> None:
        self._copy = copy
        self._epochs = copy.leader_epochs
        segments = list(copy.segments)
        self._left = iter(zip(segments, [*segments[1:], None], strict=True))
        # The segment that is read, which stays open as long, and where its offsets end.
        self._region: SegmentRegion | None = None
        self._end_offset = copy.log_end_offset
        self._batches: Iterator[AnyStoredBatch] | None = None
        # How much of the segment is found whole, and the offset up to which the copy is.
        self._position = 0
        self._next_offset = 0

    def next_segment(self) -> bool:
        """Goes on to the next segment, or the first; whether there is one."""
        self.close()
        segment, following = next(self._left, (None, None))
        if segment is None:
            return False
        end_offset = self._copy.log_end_offset if following is None else following.base_offset
        self._region = SegmentRegion(self._copy.directory, segment, 0, segment.size)
        self._end_offset = end_offset
        self._next_offset = segment.base_offset
        self._position = 0
        return True

    def read(self, bytes_max: int) -> int:
        """Reads on in the segment, about so many bytes; how many it were, 0 at its end.

        CorruptRecordsError if they are not what they were, StorageError if the disk does not give
        them.
        """
        region = self._region
        assert region is not None
        start = self._position
        try:
            if self._batches is None:
                self._batches = iter_valid(region.segment.file, 0, region.length)
            for count, batch in enumerate(self._batches, 1):
                self._judge(region.segment, batch)
                if count == COPY_BATCHES_PER_SLICE_MAX or self._position - start >= bytes_max:
                    return self._position - start
            if self._position < region.length:
                raise no_batch(region.segment.file, self._position)
        except OSError as error:
            raise self._copy.failed(error, is_reading=True) from error
        return self._position - start

    def _judge(self, segment: Segment, batch: AnyStoredBatch) -> None:
        epoch = batch.partition_leader_epoch
        known = self._epochs.epoch_for_offset(batch.base_offset)
        is_epoch_right = known is None or epoch in {known, NO_PARTITION_LEADER_EPOCH}
        is_behind = batch.base_offset >= self._next_offset
        if not is_epoch_right or not is_behind or batch.next_offset > self._end_offset:
            raise CorruptRecordsError(
                f"{segment.file.path}: a batch of offset {batch.base_offset} and epoch {epoch} is "
                f"at position {self._position}"
            )
        self._position = batch.file_end
        self._next_offset = batch.next_offset

    def close(self) -> None:
        """Gives the segment back."""
        region, self._region, self._batches = self._region, None, None
        if region is not None:
            region.release()
            if region.segment is not self._copy.segments.active:
                region.segment.rest()
