"""Which records travel together, in which order, and with which sequence numbers: the machine of
the producer. No clock, no IO; times are handed in.

Each partition has a queue of batches. Records go into the last one, until it holds `batch.size`
bytes; then, or when it is `linger.ms` old, or when a flush is wanted, it may be drained.

Sequences. An idempotent producer numbers the records of each partition. A batch gets its first
number when it is first drained, and keeps it when it is sent again, so that a broker recognises
what it has already. Several batches of a partition may be under way. When one of them fails in a
way that may pass, the partition waits until all are answered, and those that failed go back to the
front in the order of their numbers. A broker refuses those after a lost one as out of order, which
for that reason counts as such a failure unless it hits the first.

A batch that is given up leaves a gap in the numbers, which a broker would refuse for ever. So all
partitions wait until nothing is under way, the epoch of the producer rises, and numbers start again
at 0 (`needs_new_epoch`, `may_begin_epoch`, `begin_epoch`). A batch that was sent and not answered
may be in the log: under a new number it would be there twice. It is sent again under the old one
first, and is numbered again only if the broker says that the numbers before it are missing: then
neither it nor anything after it was stored.

A broker that was started again, or a replica that has just become leader, may know only the last
batch of a producer; it calls those before it out of order although it has them. So a batch that was
sent before and is refused so waits for those after it: if one of them is taken or known, the broker
has all before it, since it takes none out of order (`succeeded`); where they are is not known.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.records.batch import (
    HEADER_BYTES,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TimestampType,
    increment_sequence,
)
from kaa.records.build import assemble_batch, batch_attributes
from kaa.records.compress import compress
from kaa.records.record import encode_record
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.model.topics import TopicPartition
    from kaa.records.batch import Buffer, CompressionType
    from kaa.records.record import Header

# What a record needs in a batch besides its key, value and headers, at most.
RECORD_OVERHEAD_BYTES_MAX: Final = 36
_HEADER_OVERHEAD_BYTES_MAX: Final = 10
PRODUCER_EPOCH_MAX: Final = 32_767


class AccumulatorSettings(NamedTuple):
    """The settings of a producer that decide about batches."""

    batch_bytes: int
    linger_ms: int
    delivery_timeout_ms: int
    retries: int
    compression_type: CompressionType
    compression_level: int | None
    is_idempotent: bool
    is_transactional: bool = False


class ProducerBatch:
    """Records of one partition that are sent and answered together."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "base_timestamp",
        "created_ms",
        "data",
        "delivery",
        "failure",
        "is_missing",
        "is_unrecognised",
        "max_timestamp",
        "partition",
        "payload",
        "record_count",
        "records",
        "retry_at_ms",
        "size_in_bytes",
    )

    def __init__(self, partition: TopicPartition, timestamp_ms: int, created_ms: float) -> None:
        self.partition = partition
        self.created_ms = created_ms
        # Encoded, until the batch is drained for the first time; then compressed in `payload`.
        self.records: list[bytes] = []
        self.payload: bytes | None = None
        self.base_timestamp = self.max_timestamp = timestamp_ms
        self.record_count = 0
        self.size_in_bytes = HEADER_BYTES
        # The bytes to send, with the present identity of the producer.
        self.data: bytearray | None = None
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.retry_at_ms = 0.0
        # Sent more than once, and called out of order the last time.
        self.is_unrecognised = False
        # As were all after it: it is not in the log.
        self.is_missing = False
        # What the driver tells the outcome to.
        self.delivery: Any = None
        # Why no bytes could be made of it.
        self.failure: Exception | None = None


class _Queue:
    """The batches of one partition; the last of `waiting` may still be open."""

    __slots__ = ("in_flight", "is_recovering", "next_sequence", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[ProducerBatch] = deque()
        # In the order they were sent, which is that of their sequences.
        self.in_flight: list[ProducerBatch] = []
        self.next_sequence = 0
        # A batch failed; nothing is sent before all that are under way are answered.
        self.is_recovering = False


def record_bytes_max(key: Buffer | None, value: Buffer | None, headers: Sequence[Header]) -> int:
    """The most that a record can take in a batch."""
    size = RECORD_OVERHEAD_BYTES_MAX
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES_MAX + 4 * len(name) + len(content or b"")
    return size


class Accumulator:
    """Gathers records into batches and numbers them. The sender calls `drain` for batches that may
    leave, and has to report each by `succeeded` or `failed`.
    """

    def __init__(self, settings: AccumulatorSettings) -> None:
        self.settings = settings
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        # A batch was given up: numbers must start again under a new epoch.
        self.needs_new_epoch = False
        # Somebody waits for all batches, or for memory: batches do not linger.
        self.is_flushing = False
        self.is_exhausted = False
        self._queues: dict[TopicPartition, _Queue] = {}
        # Partitions with waiting batches, so that nobody looks at idle ones.
        self._busy: dict[TopicPartition, _Queue] = {}
        self.in_flight_count = 0
        # Bytes of batches that were not answered, as they were counted when records came.
        self.buffered_bytes = 0

    # --- filling

    def append(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        size_max: int,
        now_ms: float,
    ) -> tuple[ProducerBatch, bool]:
        """Adds a record; gives its batch, and whether somebody may have to send something now."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue()
        waiting = queue.waiting
        batch = waiting[-1] if waiting else None
        if (
            batch is not None
            and not batch.attempts
            and batch.size_in_bytes + size_max <= self.settings.batch_bytes
        ):
            record = encode_record(
                batch.record_count, timestamp_ms - batch.base_timestamp, key, value, headers
            )
            is_new = False
        else:
            # Encoded first: what is not a record raises, and leaves no empty batch behind.
            record = encode_record(0, 0, key, value, headers)
            batch = ProducerBatch(partition, timestamp_ms, now_ms)
            waiting.append(batch)
            self._busy[partition] = queue
            self.buffered_bytes += HEADER_BYTES
            is_new = True
        batch.records.append(record)
        batch.record_count += 1
        if timestamp_ms > batch.max_timestamp:  # noqa: PLR1730  A call would cost more.
            batch.max_timestamp = timestamp_ms
        size = len(record)
        batch.size_in_bytes += size
        self.buffered_bytes += size
        return batch, is_new

    # --- sending

    @property
    def has_producer(self) -> bool:
        """Whether batches can be sent: an idempotent producer needs an id first."""
        return not self.settings.is_idempotent or self.producer_id != NO_PRODUCER_ID

    def waiting_partitions(self) -> Iterable[TopicPartition]:
        """Partitions with batches that were not sent, or have to be sent again."""
        return self._busy.keys()

    def ready_ms(self, partition: TopicPartition, now_ms: float) -> float | None:
        """When the first batch of a partition may leave; None if that depends on an answer."""
        queue = self._busy.get(partition)
        if queue is None or queue.is_recovering or not self.has_producer:
            return None
        batch = queue.waiting[0]
        if self.needs_new_epoch and not self._keeps_number(batch):
            return None
        if batch.attempts:
            return batch.retry_at_ms
        if self.is_flushing or self.is_exhausted or len(queue.waiting) > 1:
            return now_ms
        if batch.size_in_bytes >= self.settings.batch_bytes:
            return now_ms
        return batch.created_ms + self.settings.linger_ms

    def drain(
        self, partitions: Iterable[TopicPartition], bytes_max: int, now_ms: float
    ) -> list[ProducerBatch]:
        """At most one batch of each partition, those that may leave now; they are under way."""
        drained: list[ProducerBatch] = []
        size = 0
        for partition in partitions:
            ready_ms = self.ready_ms(partition, now_ms)
            if ready_ms is None or ready_ms > now_ms:
                continue
            queue = self._busy[partition]
            batch = queue.waiting[0]
            if drained and size + batch.size_in_bytes > bytes_max:
                break
            queue.waiting.popleft()
            if not queue.waiting:
                del self._busy[partition]
            queue.in_flight.append(batch)
            self.in_flight_count += 1
            try:
                self._seal(batch, queue)
            except Exception as error:  # noqa: BLE001  It goes to those whose records these are.
                batch.failure = error
            size += batch.size_in_bytes
            drained.append(batch)
        return drained

    def _seal(self, batch: ProducerBatch, queue: _Queue) -> None:
        """Makes the bytes of a batch; those sent before stay, unless the identity changed."""
        settings = self.settings
        batch.attempts += 1
        batch.is_unrecognised = False
        if batch.payload is None:
            records = b"".join(batch.records)
            batch.payload = compress(settings.compression_type, records, settings.compression_level)
            batch.records = []
        elif batch.base_sequence != NO_SEQUENCE or not settings.is_idempotent:
            return
        if settings.is_idempotent:
            batch.is_missing = False
            batch.base_sequence = queue.next_sequence
            queue.next_sequence = increment_sequence(queue.next_sequence, batch.record_count)
        batch.data = assemble_batch(
            [batch.payload],
            base_offset=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            attributes=batch_attributes(
                settings.compression_type,
                TimestampType.CREATE_TIME,
                is_transactional=settings.is_transactional,
            ),
            last_offset_delta=batch.record_count - 1,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=batch.base_sequence,
            record_count=batch.record_count,
        )

    # --- answers

    def succeeded(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """The leader has the batch, and those before it that it did not recognise, which are
        returned; their memory is free.
        """
        self._landed(batch)
        self._free(batch)
        queue = self._queues[batch.partition]
        stored: list[ProducerBatch] = []
        while queue.waiting and queue.waiting[0].is_unrecognised:
            if not _is_after(batch, queue.waiting[0]):
                break
            stored.append(queue.waiting.popleft())
            self._free(stored[-1])
        if stored and not queue.waiting:
            del self._busy[batch.partition]
        return stored

    def failed(
        self,
        batch: ProducerBatch,
        error: Errors,
        *,
        retriable: bool,
        now_ms: float,
        pause_ms: float,
    ) -> bool:
        """Takes a failure in; True if the batch will be sent again, False if it is given up."""
        queue = self._queues[batch.partition]
        # An earlier batch is missing at the broker, which is not this one's fault.
        is_behind_another = queue.in_flight[0] is not batch or queue.is_recovering
        self._landed(batch)
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            batch.is_unrecognised = batch.attempts > 1 and self._keeps_number(batch)
            may_be_stored = batch.is_unrecognised and not batch.is_missing and queue.in_flight
            if is_behind_another or may_be_stored:
                retriable = True
            elif self.needs_new_epoch and self._keeps_number(batch):
                retriable = True
                for missing in (batch, *queue.waiting):
                    missing.base_sequence = NO_SEQUENCE
        in_time = now_ms + pause_ms < batch.created_ms + self.settings.delivery_timeout_ms
        if retriable and in_time and batch.attempts <= self.settings.retries:
            batch.retry_at_ms = now_ms + pause_ms
            self._requeue(queue, batch)
            if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER and not queue.in_flight:
                for other in queue.waiting:
                    other.is_missing = other.is_unrecognised
            return True
        self._free(batch)
        if self.settings.is_idempotent:
            self.needs_new_epoch = True
        return False

    def _requeue(self, queue: _Queue, batch: ProducerBatch) -> None:
        """Back to the front, before all with a later sequence."""
        position = 0
        for other in queue.waiting:
            if not other.attempts or _is_after(other, batch):
                break
            position += 1
        queue.waiting.insert(position, batch)
        self._busy[batch.partition] = queue
        queue.is_recovering = bool(queue.in_flight)

    def _landed(self, batch: ProducerBatch) -> None:
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        self.in_flight_count -= 1
        if not queue.in_flight:
            queue.is_recovering = False

    def _free(self, batch: ProducerBatch) -> None:
        self.buffered_bytes -= batch.size_in_bytes
        # Records can be large, and a caller may keep the delivery for long.
        batch.records = []
        batch.payload = None
        batch.data = None

    def expire(self, now_ms: float) -> list[ProducerBatch]:
        """Gives up the waiting batches whose time to be delivered has passed."""
        expired: list[ProducerBatch] = []
        for partition, queue in list(self._busy.items()):
            while queue.waiting:
                batch = queue.waiting[0]
                if now_ms < batch.created_ms + self.settings.delivery_timeout_ms:
                    break
                queue.waiting.popleft()
                if self.settings.is_idempotent and batch.base_sequence != NO_SEQUENCE:
                    self.needs_new_epoch = True
                self._free(batch)
                expired.append(batch)
            if not queue.waiting:
                del self._busy[partition]
        return expired

    def abort(self) -> list[ProducerBatch]:
        """Gives up all batches that wait; those under way are answered later."""
        given_up: list[ProducerBatch] = []
        for queue in self._busy.values():
            for batch in queue.waiting:
                if batch.base_sequence != NO_SEQUENCE:
                    self.needs_new_epoch = True
                self._free(batch)
                given_up.append(batch)
            queue.waiting.clear()
        self._busy.clear()
        return given_up

    @property
    def is_idle(self) -> bool:
        return not self._busy and not self.in_flight_count

    # --- the producer's identity

    def _keeps_number(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be in the log already; what a transaction wrote is aborted."""
        return batch.base_sequence != NO_SEQUENCE and not self.settings.is_transactional

    @property
    def may_begin_epoch(self) -> bool:
        """Whether a new epoch is needed, and what happened to all that was sent is known."""
        return (
            self.needs_new_epoch
            and not self.in_flight_count
            and not any(self._keeps_number(queue.waiting[0]) for queue in self._busy.values())
        )

    def begin_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Starts numbering at 0 under a new identity; nothing may be under way."""
        assert self.in_flight_count == 0
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.needs_new_epoch = False
        for queue in self._queues.values():
            queue.next_sequence = 0
            queue.is_recovering = False
            for batch in queue.waiting:
                batch.base_sequence = NO_SEQUENCE


def _is_after(one: ProducerBatch, other: ProducerBatch) -> bool:
    """Whether one was numbered later; numbers wrap, but never by as much as half their range."""
    return (one.base_sequence - other.base_sequence) & 0x7FFFFFFF < 0x40000000
