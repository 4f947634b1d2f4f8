"""The disk of a simulated replica: quorum state, log and snapshots, with what a power cut may lose.

The log is kept twice: as the process sees it, and as it is on disk. A flush copies the first to the
second. When the process is killed, what was appended since the last flush is lost, all of it or
from a random batch on; and a truncation that was not flushed may be undone. The quorum state file
and finished snapshots are durable at once.

`SimulatedLog` is also the `LogView` that machines read in every test of the quorum.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from kaa.quorum import ElectionState, OffsetAndEpoch, end_offset_for_epoch
from kaa.quorum.values import Value

LEADER_CHANGE = "leader-change"
"""The content of the control record that opens an epoch; data batches hold numbers."""


class Batch(Value):
    """A batch of a leader: consecutive records, one offset each."""

    base_offset: int
    epoch: int
    values: tuple[int | str, ...]

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.values)


class Snapshot(Value):
    """The state of a replica's state machine, which is the last number applied, and its bytes."""

    value: int
    content: bytes


def snapshot_of(value: int) -> Snapshot:
    return Snapshot(value, f"the last number was {value}".encode())


class SimulatedLog:
    """A log with its snapshots; implements `kaa.quorum.LogView`."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self._start_offset = 0
        # (epoch, first offset) of each run of batches of one epoch.
        self._epoch_starts: list[tuple[int, int]] = []
        # Rises whenever the start of the log or of an epoch in it may have changed.
        self.version = 0
        # The end of the last batch, if there is one.
        self._end = OffsetAndEpoch(0, 0)
        # What is on disk: batches and, separately, the log start offset.
        self._durable: list[Batch] = []

    # --- LogView

    def end(self) -> OffsetAndEpoch:
        if self.batches:
            return self._end
        latest = self.latest_snapshot_id()
        return OffsetAndEpoch(self._start_offset, 0 if latest is None else latest.epoch)

    def start_offset(self) -> int:
        return self._start_offset

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        return end_offset_for_epoch(
            self._epoch_starts, self.end(), self.earliest_snapshot_id(), epoch
        )

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    def snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        snapshot = self.snapshots.get(snapshot_id)
        return None if snapshot is None else len(snapshot.content)

    # --- changes

    def append_as_leader(self, epoch: int, values: tuple[int | str, ...]) -> Batch:
        batch = Batch(self.end().offset, epoch, values)
        self._append(batch)
        return batch

    def append_as_follower(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._append(batch)

    def read(self, offset: int, batches_max: int) -> tuple[Batch, ...]:
        """Up to so many batches from the one that starts at the offset."""
        index = self._index(offset)
        return tuple(self.batches[index : index + max(1, batches_max)])

    def between(self, offset: int, end_offset: int) -> list[Batch]:
        return [
            batch for batch in self.batches[self._index(offset) :] if batch.end_offset <= end_offset
        ]

    def truncate_to(self, offset: int) -> None:
        del self.batches[self._index(offset) :]
        self._count_epochs()

    def install(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """Durably: the log is empty and starts where the snapshot ends."""
        self.snapshots = {snapshot_id: snapshot}
        self._start_offset = snapshot_id.offset
        self.batches.clear()
        self._durable.clear()
        self._count_epochs()

    def take_snapshot(self, offset: int, value: int) -> OffsetAndEpoch:
        """Durably: a snapshot of the state after all records before the offset."""
        before = self.between(self._start_offset, offset)
        epoch = before[-1].epoch if before else self.end().epoch
        snapshot_id = OffsetAndEpoch(offset, epoch)
        self.snapshots[snapshot_id] = snapshot_of(value)
        self.version += 1
        return snapshot_id

    def delete_before(self, snapshot_id: OffsetAndEpoch) -> None:
        """Durably: the log starts at a snapshot, older snapshots are gone."""
        assert snapshot_id in self.snapshots
        self._start_offset = snapshot_id.offset
        self.snapshots = {key: kept for key, kept in self.snapshots.items() if key >= snapshot_id}
        for batches in (self.batches, self._durable):
            batches[:] = [batch for batch in batches if batch.base_offset >= snapshot_id.offset]
        self._count_epochs()

    # --- durability

    def flush(self) -> None:
        self._durable = list(self.batches)

    def durable_end_offset(self) -> int:
        return self._durable[-1].end_offset if self._durable else self._start_offset

    def crash(self, rng: random.Random) -> None:
        """Lose what a power cut may lose, then recover as a driver does before it starts the
        machine.
        """
        common = 0
        for ours, theirs in zip(self.batches, self._durable, strict=False):
            if ours != theirs:
                break
            common += 1
        if len(self._durable) > common and rng.random() < 0.5:
            # A truncation had not reached the disk.
            self.batches = list(self._durable)
        else:
            survivors = rng.randint(common, len(self.batches))
            self.batches = self.batches[:survivors]
        self._count_epochs()
        latest = self.latest_snapshot_id()
        if latest is not None and latest > self.end():
            self.install(latest, self.snapshots[latest])
        self.flush()

    # --- inside

    def _append(self, batch: Batch) -> None:
        end = self.end()
        assert batch.base_offset == end.offset, f"gap: {batch} after {end}"
        assert batch.epoch >= end.epoch, f"epoch falls: {batch} after {end}"
        if not self._epoch_starts or self._epoch_starts[-1][0] != batch.epoch:
            self._epoch_starts.append((batch.epoch, batch.base_offset))
            self.version += 1
        self.batches.append(batch)
        self._end = OffsetAndEpoch(batch.end_offset, batch.epoch)

    def _index(self, offset: int) -> int:
        """The index of the batch that starts at an offset, which must be a batch boundary."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].base_offset < offset:
                low = middle + 1
            else:
                high = middle
        found = self.batches[low].base_offset if low < len(self.batches) else self.end().offset
        assert found == offset, f"{offset} is not a batch boundary"
        return low

    def _count_epochs(self) -> None:
        self._epoch_starts = []
        self.version += 1
        if self.batches:
            last = self.batches[-1]
            self._end = OffsetAndEpoch(last.end_offset, last.epoch)
        for batch in self.batches:
            if not self._epoch_starts or self._epoch_starts[-1][0] != batch.epoch:
                self._epoch_starts.append((batch.epoch, batch.base_offset))


class Disk:
    """All that a replica has after a restart."""

    def __init__(self) -> None:
        self.log = SimulatedLog()
        self.election: ElectionState | None = None
