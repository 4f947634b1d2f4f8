"""What the metadata log says about the quorum itself: its voters and the level of kraft.version.

Both are in force from the moment their record is appended, and go back when it is truncated away.
The voter history is shared with the machine: before its start it is filled here, afterwards by the
machine, which hears of every voter set by `VoterSetRead`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.quorum.control_records import read_control_records, voter_set
from kaa.quorum.voters import NO_KRAFT_VERSION, VoterSetHistory
from kaa.wire.messages.control import KRaftVersionRecord, VotersRecord

if TYPE_CHECKING:
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.metadata_log import MetadataLog, OpenedLog
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.quorum.voters import VoterSet
    from kaa.records.batch import RecordBatch


class ControlState:
    """The control records of the metadata log, as the driver reads them: fed with every batch and
    snapshot, and with every truncation, in the order of the log.
    """

    def __init__(self, static_voters: VoterSet) -> None:
        self.voters = VoterSetHistory(static_voters)
        # Offset and level of every KRaftVersionRecord, in the order of the log.
        self._levels: list[tuple[int, int]] = []

    @property
    def kraft_version(self) -> int:
        return self._levels[-1][1] if self._levels else NO_KRAFT_VERSION

    def kraft_version_at(self, offset: int) -> int:
        """The level that was in force once the offset had been appended."""
        level = NO_KRAFT_VERSION
        for at, found in self._levels:
            if at <= offset:
                level = found
        return level

    def read(self, opened: OpenedLog) -> None:
        """Fills the state from the newest snapshot and all of the log after it."""
        start_offset = opened.log.start_offset()
        if opened.snapshot_id is not None and opened.snapshot is not None:
            start_offset = opened.snapshot_id.offset
            found = self.take_snapshot(opened.snapshot_id, opened.snapshot)
            if found is not None:
                self.voters.append(*found)
        self._read_log(opened.log, start_offset)

    def _read_log(self, log: MetadataLog, start_offset: int) -> None:
        for batch in log.batches(start_offset, log.end().offset):
            if batch.is_control:
                for offset, voters in self.take_batch(batch):
                    self.voters.append(offset, voters)

    def take_snapshot(
        self, snapshot_id: OffsetAndEpoch, content: SnapshotContent
    ) -> tuple[int, VoterSet] | None:
        """Starts over from a snapshot; returns its voter set and the offset it counts for."""
        offset = snapshot_id.offset - 1
        self._levels = [(offset, content.kraft_version)]
        return None if content.voters is None else (offset, content.voters)

    def take_batch(self, batch: RecordBatch) -> list[tuple[int, VoterSet]]:
        """Takes note of an appended control batch; returns its voter sets with their offsets."""
        found: list[tuple[int, VoterSet]] = []
        for offset, message in read_control_records(batch):
            if isinstance(message, KRaftVersionRecord):
                self._levels.append((offset, message.kraft_version))
            elif isinstance(message, VotersRecord):
                found.append((offset, voter_set(message)))
        return found

    def truncate_to(self, end_offset: int) -> None:
        while self._levels and self._levels[-1][0] >= end_offset:
            self._levels.pop()
