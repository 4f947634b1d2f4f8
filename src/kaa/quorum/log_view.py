"""What the machine knows of its log: its end, how epochs lie in it, and its snapshots.

The log of the quorum is a run of batches, each written by the leader of one epoch; epochs never
fall along the log. Two logs that agree on the epoch at an offset agree on everything before it (the
log matching rule of Raft). So a follower that says "I end at offset 17, my last epoch is 3" has
said all that is needed: the leader looks up where epoch 3 ends in its own log and either sends what
follows offset 17, or answers with the end of the newest epoch that both can share (`diverging`),
or, when it no longer has that part of the log, names a snapshot.

The machine reads through `LogView` only. A view shows what was appended, also before it reached
the disk; the machine learns by `LogWritten` what is durable.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from functools import total_ordering
from typing import TYPE_CHECKING, Protocol

from kaa.quorum.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence


@total_ordering
class OffsetAndEpoch(Value):
    """An end offset and the epoch of the record before it. Ordered by epoch, then offset: a later
    one is newer.
    """

    offset: int
    epoch: int

    def __lt__(self, other: OffsetAndEpoch) -> bool:
        return (self.epoch, self.offset) < (other.epoch, other.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


# The snapshot that formatting writes: it is loaded locally and never sent.
BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(0, 0)


class LogView(Protocol):
    """Read access to the log; every method answers for the moment it is called."""

    def end(self) -> OffsetAndEpoch:
        """The log end offset with the last epoch in it; the snapshot's epoch if the log is empty
        after one; else 0.
        """

    def start_offset(self) -> int:
        """The log start offset: 0, or the end offset of the earliest snapshot."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Where an epoch ends: see `end_offset_for_epoch`."""

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest snapshot that is kept."""

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot that is kept."""

    def snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The size of a snapshot that is kept, None for any other."""


def end_offset_for_epoch(
    epoch_starts: Sequence[tuple[int, int]],
    end: OffsetAndEpoch,
    earliest_snapshot_id: OffsetAndEpoch | None,
    epoch: int,
) -> OffsetAndEpoch:
    """Where an epoch ends in a log whose epochs start at `epoch_starts` (epoch, offset), in order.

    The answer is the largest epoch of the log that is not above the one asked for, and the offset
    where the next one starts. An epoch above all of them ends at the end of the log. An epoch below
    all of them ends where the log starts, and if a snapshot ends there, the answer is the
    snapshot's id.
    """
    index = bisect_right(epoch_starts, epoch, key=lambda start: start[0])
    if index == len(epoch_starts):
        return end
    next_start_offset = epoch_starts[index][1]
    found = OffsetAndEpoch(next_start_offset, epoch_starts[index - 1][0] if index else epoch)
    snapshot_id = earliest_snapshot_id
    if snapshot_id is not None and snapshot_id.offset == found.offset and found.epoch == epoch:
        return snapshot_id
    return found


class Validity(Enum):
    """How a fetch position compares with the leader's log."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


def validate_fetch_position(
    log: LogView, offset: int, last_epoch: int
) -> tuple[Validity, OffsetAndEpoch]:
    """Whether a replica that ends at `offset` with `last_epoch` can go on from there.

    VALID gives the position back, DIVERGING the point to truncate to, SNAPSHOT the snapshot to
    fetch instead.
    """
    latest = log.latest_snapshot_id()
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
        # A new replica is quicker with the snapshot, even where the whole log is still here.
        return Validity.SNAPSHOT, latest
    start_offset = log.start_offset()
    if offset == 0 and start_offset == 0:
        return Validity.VALID, OffsetAndEpoch(0, 0)
    earliest = log.earliest_snapshot_id()
    if earliest is not None and latest is not None:
        before_start = offset < start_offset
        other_epoch_at_start = offset == start_offset and last_epoch != earliest.epoch
        if before_start or other_epoch_at_start or last_epoch < earliest.epoch:
            return Validity.SNAPSHOT, latest
    epoch_end = log.end_offset_for_epoch(last_epoch)
    if epoch_end.epoch != last_epoch or epoch_end.offset < offset:
        return Validity.DIVERGING, epoch_end
    return Validity.VALID, OffsetAndEpoch(offset, last_epoch)


def truncation_offset(log: LogView, diverging: OffsetAndEpoch) -> int:
    """Where a follower cuts its log after the leader answered `diverging`."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end().offset)
    local_end = log.end_offset_for_epoch(diverging.epoch)
    if local_end.epoch == diverging.epoch:
        return min(local_end.offset, diverging.offset)
    return local_end.offset
