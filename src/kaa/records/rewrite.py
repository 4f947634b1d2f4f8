"""Rewrites a batch with another codec, for topics whose `compression.type` says so.

The records of nearly every batch are already as Java's builder would write them: shortest varints,
attributes 0, the first timestamp as base, header keys in UTF-8. Such records are copied from one
codec to the other as a stream of bytes. All others are decoded and encoded one by one, with the
same result as in Java: offsets count up from 0, the base timestamp is that of the first record.

Memory is bounded by the size the new batch may have, and by one chunk or one record of the old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.model.topics import NO_TIMESTAMP
from kaa.records._pure_objects import wrap_int64
from kaa.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    RecordBatch,
    TimestampType,
)
from kaa.records.build import assemble_batch, batch_attributes
from kaa.records.compress import compressor
from kaa.records.errors import InvalidRecordError
from kaa.records.record import encode_record, iter_records

if TYPE_CHECKING:
    from kaa.records.batch import Buffer, CompressionType


class BatchRewriter:
    """`copy` takes the expanded records in chunks, `finish` gives the new batch."""

    def __init__(
        self,
        batch: RecordBatch,
        compression_type: CompressionType,
        compression_level: int | None,
        message_bytes_max: int,
    ) -> None:
        self._batch = batch
        self._compression_type = compression_type
        self._compression_level = compression_level
        self._message_bytes_max = message_bytes_max
        self._base_timestamp = batch.base_timestamp
        self._start()

    def _start(self) -> None:
        self._stream = compressor(self._compression_type, self._compression_level)
        self._payload = bytearray()
        self._is_too_large = False

    def copy(self, chunk: Buffer) -> None:
        """Takes the next bytes. Once the new batch is too large, they are no longer kept."""
        if self._is_too_large:
            return
        self._payload += self._stream.write(chunk)
        if HEADER_BYTES + len(self._payload) > self._message_bytes_max:
            self._is_too_large = True
            self._payload.clear()

    def finish(
        self, *, is_copy: bool, timestamp_type: TimestampType, max_timestamp: int
    ) -> RecordBatch | None:
        """The new batch; None if it is larger than allowed.

        Unless the copied bytes may stand as they are (`is_copy`), all records are encoded again.
        """
        self._check_producer_state()
        if not is_copy or self._batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            self._start()
            self._encode_records()
        if not self._is_too_large:
            self._payload += self._stream.finish()
        if self._is_too_large or HEADER_BYTES + len(self._payload) > self._message_bytes_max:
            return None
        batch = self._batch
        return RecordBatch(
            assemble_batch(
                (self._payload,),
                base_offset=0,
                partition_leader_epoch=batch.partition_leader_epoch,
                attributes=batch_attributes(
                    self._compression_type,
                    timestamp_type,
                    is_transactional=batch.is_transactional,
                ),
                last_offset_delta=batch.record_count - 1,
                base_timestamp=self._base_timestamp,
                max_timestamp=max_timestamp,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                record_count=batch.record_count,
            )
        )

    def _check_producer_state(self) -> None:
        """What a builder does not write, though a batch that is kept as it is may say it."""
        batch = self._batch
        has_producer = batch.producer_id != NO_PRODUCER_ID
        if batch.is_transactional and not has_producer:
            raise InvalidRecordError("a transactional batch without producer id")
        if has_producer and (batch.producer_epoch == NO_PRODUCER_EPOCH or batch.base_sequence < 0):
            raise InvalidRecordError("a producer id without epoch or sequence")

    def _encode_records(self) -> None:
        for index, record in enumerate(iter_records(self._batch)):
            if record.timestamp < NO_TIMESTAMP:
                raise InvalidRecordError(f"timestamp {record.timestamp} cannot be written")
            if index == 0:
                self._base_timestamp = record.timestamp
            delta = wrap_int64(record.timestamp - self._base_timestamp)
            self.copy(encode_record(index, delta, record.key, record.value, record.headers))
