"""What a partition knows about its idempotent and transactional producers. Pure, without files.

For each producer id the state keeps its epoch, the last five batches it wrote (sequences and
offsets), the epoch of the coordinator that ended its last transaction, and the first offset of the
transaction that is open. That is enough to

* answer a retried batch with the offsets of the first attempt instead of writing it again,
* refuse a batch that would leave a gap (OUT_OF_ORDER_SEQUENCE_NUMBER) or comes from a producer that
  was replaced (INVALID_PRODUCER_EPOCH),
* compute the last stable offset: the first offset of the oldest transaction that is undecided, or
  decided by a marker that is not yet below the high watermark.

An append is validated on a copy (`ProducerAppend`) and becomes state only after the bytes were
written (`update`), so that a failed write leaves no trace. Recovery and followers feed the same
methods with origin REPLICATION, which records without judging: the leader has already judged.

Snapshots hold one batch per producer, not five. After a restart a retry is recognised for the last
batch and for everything that is replayed after the snapshot; this is Kafka's guarantee too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import PRODUCERS_PER_SLICE_MAX
from kaa.log.errors import LogError
from kaa.model.kinds import AppendOrigin
from kaa.model.topics import NO_OFFSET, NO_TIMESTAMP
from kaa.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MAX, decrement_sequence
from kaa.records.control import ControlRecordType
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.records.batch import RecordBatch
    from kaa.records.control import EndTransactionMarker

BATCHES_RETAINED = 5


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class VerificationGuard:
    """Proof that the coordinator knows of a transaction here; compared by identity (KIP-890)."""

    __slots__ = ()


class VerificationEntry:
    """A transaction that is being verified; no batch of it is in the log yet."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "supports_epoch_bump", "timestamp_ms")

    def __init__(
        self, timestamp_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> None:
        self.guard = VerificationGuard()
        self.timestamp_ms = timestamp_ms
        # A higher one must wait, or a retry of the lower one could never succeed.
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def see(self, sequence: int, epoch: int) -> None:
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


class ProducerEntry:
    """State of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "generation",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int = NO_OFFSET,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        # The last batches of this epoch, oldest first, at most BATCHES_RETAINED.
        self.batches = list(batches)
        # Of the state when the entry was made; an older one belongs to a snapshot too.
        self.generation = 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def add_batch(self, metadata: BatchMetadata) -> None:
        if len(self.batches) == BATCHES_RETAINED:
            del self.batches[0]
        self.batches.append(metadata)

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The batch already written under the very same sequences."""
        if batch.producer_epoch != self.epoch:
            return None
        last_sequence = batch.last_sequence
        for metadata in self.batches:
            if (
                metadata.last_sequence == last_sequence
                and metadata.first_sequence == batch.base_sequence
            ):
                return metadata
        return None

    def copy(self) -> ProducerEntry:
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.transaction_first_offset,
            self.batches,
        )

    def take(self, newer: ProducerEntry) -> None:
        self.set_epoch(newer.epoch)
        for metadata in newer.batches:
            self.add_batch(metadata)
        self.coordinator_epoch = newer.coordinator_epoch
        self.transaction_first_offset = newer.transaction_first_offset
        self.last_timestamp = newer.last_timestamp

    def __repr__(self) -> str:
        return (
            f"ProducerEntry(id={self.producer_id}, epoch={self.epoch}, batches={self.batches}, "
            f"transaction_first_offset={self.transaction_first_offset})"
        )


class ProducerAppend:
    """The batches of one producer in one append: validated here, made state by `update`."""

    __slots__ = ("_current", "_origin", "_verification", "started_offsets", "updated")

    def __init__(
        self,
        current: ProducerEntry,
        origin: AppendOrigin,
        verification: VerificationEntry | None,
    ) -> None:
        self._current = current
        self._origin = origin
        self._verification = verification
        # First offsets of transactions that begin with this append.
        self.started_offsets: list[int] = []
        self.updated = ProducerEntry(
            current.producer_id,
            current.epoch,
            current.coordinator_epoch,
            current.last_timestamp,
            current.transaction_first_offset,
        )

    def append_data(self, batch: RecordBatch) -> None:
        """Takes a batch of records. Raises LogError if it may not be written."""
        updated = self.updated
        epoch = batch.producer_epoch
        if epoch < updated.epoch:
            self._refuse_epoch(epoch, "older than")
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, batch.base_sequence)
        updated.set_epoch(epoch)
        delta = batch.last_offset_delta
        timestamp = batch.max_timestamp
        updated.add_batch(BatchMetadata(batch.last_sequence, batch.last_offset, delta, timestamp))
        updated.last_timestamp = timestamp
        if updated.transaction_first_offset == NO_OFFSET:
            if batch.is_transactional:
                updated.transaction_first_offset = batch.base_offset
                self.started_offsets.append(batch.base_offset)
        elif not batch.is_transactional:
            raise LogError(
                Errors.INVALID_TXN_STATE,
                f"producer {updated.producer_id} has a transaction open and writes outside of it",
            )

    def append_marker(
        self, marker: EndTransactionMarker, batch: RecordBatch, transaction_version: int
    ) -> CompletedTransaction | None:
        """Takes the end of a transaction; returns it, unless no record of it was written here."""
        updated = self.updated
        self._check_marker_epoch(batch.producer_epoch, transaction_version)
        if (
            updated.coordinator_epoch > marker.coordinator_epoch
            and self._origin is not AppendOrigin.REPLICATION
        ):
            raise LogError(
                Errors.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} of the marker for producer "
                f"{updated.producer_id} is older than {updated.coordinator_epoch}",
            )
        completed = None
        if updated.transaction_first_offset != NO_OFFSET:
            completed = CompletedTransaction(
                updated.producer_id,
                updated.transaction_first_offset,
                batch.base_offset,
                marker.control_type is ControlRecordType.ABORT,
            )
        updated.set_epoch(batch.producer_epoch)
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.last_timestamp = batch.max_timestamp
        updated.transaction_first_offset = NO_OFFSET
        return completed

    def _check_marker_epoch(self, epoch: int, transaction_version: int) -> None:
        """From transaction version 2 on, each marker bumps the epoch; an equal one is a retry.

        The retry is let through if nothing is open: it then changes nothing (KAFKA-19999).
        """
        current = self.updated.epoch
        if transaction_version < 2:
            if epoch < current:
                self._refuse_epoch(epoch, "older than")
        elif epoch < current or (
            epoch == current and self.updated.transaction_first_offset != NO_OFFSET
        ):
            self._refuse_epoch(epoch, "not newer than")

    def _refuse_epoch(self, epoch: int, relation: str) -> None:
        if self._origin is not AppendOrigin.REPLICATION:
            raise LogError(
                Errors.INVALID_PRODUCER_EPOCH,
                f"epoch {epoch} of producer {self.updated.producer_id} is {relation} the last "
                f"seen epoch {self.updated.epoch}",
            )

    def _check_sequence(self, epoch: int, sequence: int) -> None:
        verification = self._verification
        if verification is not None:
            if verification.supports_epoch_bump and sequence != 0 and not self._current.batches:
                self._refuse_sequence(sequence, "0, since nothing is known of this producer")
            if sequence > verification.lowest_sequence:
                self._refuse_sequence(sequence, f"at most {verification.lowest_sequence}")
        if epoch != self.updated.epoch:
            if sequence != 0 and self.updated.epoch != NO_PRODUCER_EPOCH:
                self._refuse_sequence(sequence, f"0, the first of epoch {epoch}")
            return
        if self.updated.batches:
            last = self.updated.last_sequence
        elif epoch == self._current.epoch:
            last = self._current.last_sequence
        else:
            last = NO_SEQUENCE
        # Nothing is known of a producer whose records were all deleted: any sequence may follow.
        in_sequence = sequence == last + 1 or (sequence == 0 and last == SEQUENCE_MAX)
        if not in_sequence and self._current.epoch != NO_PRODUCER_EPOCH:
            self._refuse_sequence(sequence, f"the one after {last}")

    def _refuse_sequence(self, sequence: int, expected: str) -> None:
        raise LogError(
            Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {sequence} of producer {self.updated.producer_id}, expected {expected}",
        )


class ProducerState:
    """All producers of a partition, and its undecided and unreplicated transactions."""

    __slots__ = (
        "_generation",
        "_is_out_of_order",
        "_verifications",
        "end_offset",
        "expiration_ms",
        "ongoing",
        "producers",
        "unreplicated",
    )

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        # First offset of each open transaction to its producer id, rising, unless it is out of
        # order: a follower learns of all transactions of one producer before those of the next.
        self.ongoing: dict[int, int] = {}
        self._is_out_of_order = False
        # First offset of each decided transaction to its marker at or above the high watermark.
        self.unreplicated: dict[int, int] = {}
        # The state reflects every batch below this offset.
        self.end_offset = 0
        self._verifications: dict[int, VerificationEntry] = {}
        # Counts snapshots that share entries with this state.
        self._generation = 0

    # --- appending

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        entry = self.producers.get(batch.producer_id)
        return entry.find_duplicate(batch) if entry is not None else None

    def prepare(self, producer_id: int, origin: AppendOrigin) -> ProducerAppend:
        current = self.producers.get(producer_id)
        if current is None:
            current = ProducerEntry(producer_id)
        return ProducerAppend(current, origin, self._verifications.get(producer_id))

    def update(self, append: ProducerAppend) -> None:
        updated = append.updated
        entry = self.producers.get(updated.producer_id)
        if entry is None:
            updated.generation = self._generation
            self.producers[updated.producer_id] = updated
        elif entry.generation == self._generation:
            entry.take(updated)
        else:
            # A snapshot is being written of it, as it was.
            own = entry.copy()
            own.generation = self._generation
            own.take(updated)
            self.producers[updated.producer_id] = own
        for first_offset in append.started_offsets:
            if self.ongoing and first_offset < next(reversed(self.ongoing)):
                self._is_out_of_order = True
            self.ongoing[first_offset] = updated.producer_id

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """What the last stable offset will be once the marker is replicated. Of batches that came
        with it, the state knows transactions already that begin after the marker.
        """
        after = completed.last_offset + 1
        for first_offset in self._in_order():
            if first_offset != completed.first_offset:
                return min(first_offset, after)
        return after

    def complete(self, completed: CompletedTransaction) -> None:
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset

    # --- offsets

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open or not known to be replicated."""
        # On the way of every fetch, where they nearly always are in order.
        ongoing = self._in_order() if self._is_out_of_order else self.ongoing
        first = next(iter(ongoing), None)
        if self.unreplicated:
            oldest = min(self.unreplicated)
            if first is None or oldest < first:
                return oldest
        return first

    def _in_order(self) -> dict[int, int]:
        if self._is_out_of_order:
            self.ongoing = dict(sorted(self.ongoing.items()))
            self._is_out_of_order = False
        return self.ongoing

    def replicated_to(self, high_watermark: int) -> None:
        """Forgets decided transactions whose markers are below the high watermark."""
        self.unreplicated = {
            first: last for first, last in self.unreplicated.items() if last >= high_watermark
        }

    # --- verification of transactions

    def has_ongoing_transaction(self, producer_id: int, epoch: int | None = None) -> bool:
        entry = self.producers.get(producer_id)
        if entry is None or entry.transaction_first_offset == NO_OFFSET:
            return False
        return epoch is None or entry.epoch == epoch

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """The guard to append with after the coordinator agreed; None if none is needed."""
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        entry = self._verifications.get(producer_id)
        if entry is None:
            entry = VerificationEntry(now_ms, sequence, epoch, supports_epoch_bump)
            self._verifications[producer_id] = entry
        entry.see(sequence, epoch)
        return entry.guard

    def is_verified(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        entry = self._verifications.get(producer_id)
        return entry is not None and entry.guard is guard

    def end_verification(self, producer_id: int, marker_epoch: int = NO_PRODUCER_EPOCH) -> None:
        """A transaction has begun here, or is over by a marker.

        Where each transaction has its own epoch, the marker has the one of the next: a verification
        of that epoch is for the next one, which waits for this marker, and goes on.
        """
        entry = self._verifications.get(producer_id)
        if entry is None:
            return
        is_of_next = entry.supports_epoch_bump and entry.epoch == marker_epoch
        if not is_of_next:
            del self._verifications[producer_id]

    # --- life

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self.unreplicated

    def load(self, entries: Iterable[ProducerEntry], end_offset: int, now_ms: int) -> None:
        """Replaces the state by that of a snapshot, without producers that have expired."""
        self.clear(end_offset)
        for entry in entries:
            if not self._is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
        self.ongoing = {
            entry.transaction_first_offset: entry.producer_id
            for entry in sorted(
                self.producers.values(), key=lambda entry: entry.transaction_first_offset
            )
            if entry.transaction_first_offset != NO_OFFSET
        }

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self._is_out_of_order = False
        self.unreplicated.clear()
        self.end_offset = end_offset

    def freeze(self) -> list[ProducerEntry]:
        """All entries as they are now; they do not change any more."""
        self._generation += 1
        return list(self.producers.values())

    def remove_expired(self, now_ms: int) -> Iterator[None]:
        """Forgets producers that were silent for too long; pauses now and then."""
        for number, entry in enumerate(list(self.producers.values()), 1):
            known = self.producers.get(entry.producer_id)
            if known is not None and self._is_expired(known, now_ms):
                del self.producers[entry.producer_id]
            if number % PRODUCERS_PER_SLICE_MAX == 0:
                yield
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.timestamp_ms >= self.expiration_ms:
                del self._verifications[producer_id]

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= self.expiration_ms
        )
