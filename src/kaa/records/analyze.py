"""What a follower, or the leader of the metadata quorum, learns of batches before it appends them.

Offsets are already assigned, so nothing is changed and no record is looked at: the checksum vouches
for what a leader has validated. Batches of any magic may come. The walk ends where a whole batch
ends the bytes, and at a batch of a newer leader epoch than the follower knows: the follower cannot
tell yet whether that one stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.model.topics import NO_OFFSET, NO_TIMESTAMP
from kaa.records.batch import NO_PARTITION_LEADER_EPOCH
from kaa.records.errors import CorruptRecordsError, InvalidRecordError
from kaa.records.legacy import iter_any_batches

if TYPE_CHECKING:
    from kaa.records.batch import Buffer


class AppendableExtent(NamedTuple):
    """The extent of the batches that may be appended; `valid_bytes` is 0 if none may."""

    # Base offset of the first batch; of magic 0 and 1 it is not known without expanding.
    first_offset: int = NO_OFFSET
    last_offset: int = NO_OFFSET
    last_leader_epoch: int | None = None
    max_timestamp: int = NO_TIMESTAMP
    valid_bytes: int = 0
    batch_count: int = 0


def analyze_replicated(records: Buffer, leader_epoch: int) -> AppendableExtent:
    """For a follower whose leader epoch is `leader_epoch`.

    Raises CorruptRecordsError at a wrong checksum, InvalidRecordError at offsets that do not rise.
    """
    return _analyze(records, leader_epoch, is_raft_leader=False)


def analyze_raft_leader(records: Buffer, leader_epoch: int) -> AppendableExtent:
    """For the quorum leader, whose own batches must all be of `leader_epoch`."""
    return _analyze(records, leader_epoch, is_raft_leader=True)


def _analyze(records: Buffer, leader_epoch: int, *, is_raft_leader: bool) -> AppendableExtent:
    info = AppendableExtent()
    for batch in iter_any_batches(records):
        epoch = batch.partition_leader_epoch
        if is_raft_leader and epoch != leader_epoch:
            raise InvalidRecordError(f"a batch of epoch {epoch} from the leader of {leader_epoch}")
        if not is_raft_leader and epoch > leader_epoch:
            break
        last_offset = batch.last_offset
        if not batch.is_valid_crc():
            raise CorruptRecordsError(f"wrong checksum at offset {last_offset}")
        if info.batch_count == 0:
            first_offset = batch.base_offset if batch.magic > 1 else NO_OFFSET
            info = AppendableExtent(first_offset)
        if last_offset <= info.last_offset:
            raise InvalidRecordError(f"offset {last_offset} follows {info.last_offset}")
        info = info._replace(
            last_offset=last_offset,
            last_leader_epoch=None if epoch == NO_PARTITION_LEADER_EPOCH else epoch,
            max_timestamp=max(info.max_timestamp, batch.max_timestamp),
            valid_bytes=info.valid_bytes + batch.size_in_bytes,
            batch_count=info.batch_count + 1,
        )
    return info
