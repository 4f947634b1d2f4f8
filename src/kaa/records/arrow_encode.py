"""Arrow columns as record batches.

`encode` turns rows into finished batches of a bounded size, for one partition or for many, with
any codec:

    encoded = encode(rows, now_ms, batch_bytes_max=1_000_000, partition=3)

The loop is the kernel's; `_kernel_arrow_encode.pxi` tells input, algorithm and bounds. It writes
records into buffers of some megabytes, where uncompressed batches get their headers and stay.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import ARROW_ENCODE_CHUNK_BYTES, ARROW_READ_BYTES_MAX
from kaa.records.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    CompressionType,
    increment_sequence,
)
from kaa.records.checksum import crc32c
from kaa.records.compress import compress
from kaa.records.errors import InvalidRecordError
from kaa.records.kernel import KERNEL_NAME

if TYPE_CHECKING or KERNEL_NAME == "python":
    from kaa.records._pure_arrow import encode_rows, order_by_partition
else:
    from kaa.records._kernel import encode_rows, order_by_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.records import _pure_arrow_types as types


class ProducerFields(NamedTuple):
    """Who writes. `base_sequences` has the next sequence of each partition, if idempotent."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequences: Mapping[int, int] = {}
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Rows to write, as raw Arrow buffers (`_kernel_arrow_encode.pxi` has their layout).

    `timestamps` are int64 milliseconds, `partitions` int32.
    """

    row_count: int
    value: types.BinaryInput
    key: types.BinaryInput | None = None
    headers: types.HeadersInput | None = None
    timestamps: types.FixedInput | None = None
    partitions: types.FixedInput | None = None


class EncodedBatch(NamedTuple):
    """A finished batch and which rows it has: see `EncodedBatches.order`.

    `data` may lie in one buffer with other batches, which stays until the last of them goes.
    """

    partition: int
    data: memoryview
    first_row: int
    row_count: int


class EncodedBatches(NamedTuple):
    """Batches in the order of their partitions and rows.

    `order` is None where rows keep their places. With a partition column it has the row numbers
    as int32, sorted by partition, and `first_row` of a batch counts in it.
    """

    batches: list[EncodedBatch]
    order: bytearray | None


def encode(
    rows: RowColumns,
    default_timestamp_ms: int,
    *,
    batch_bytes_max: int,
    partition: int = 0,
    partition_count: int = 1,
    compression_type: CompressionType = CompressionType.NONE,
    compression_level: int | None = None,
    producer: ProducerFields | None = None,
) -> EncodedBatches:
    """Batches of at most `batch_bytes_max` bytes, for `partition` or as the rows say.

    A row without a timestamp gets the default. A batch that its codec would make larger stays
    uncompressed. A row that no batch can hold, or that is not a valid record, is an
    InvalidRecordError that names it, and nothing is encoded.
    """
    if default_timestamp_ms < 0:
        raise ValueError(f"default timestamp {default_timestamp_ms} is negative")
    columns = (rows.key, rows.value, rows.headers, rows.timestamps, default_timestamp_ms)
    order = None
    ranges = [(partition, 0, rows.row_count)]
    if rows.partitions is not None:
        order, ranges = order_by_partition(*rows.partitions, rows.row_count, partition_count)
    range_ends = array("q", [end for _, _, end in ranges]).tobytes()
    capacity = _chunk_bytes(rows, batch_bytes_max)
    sealer = _Sealer(compression_type, compression_level, producer or ProducerFields())
    batches: list[EncodedBatch] = []
    row = 0
    while row < rows.row_count:
        chunk, pieces, row = encode_rows(
            capacity, columns, rows.row_count, order, range_ends, row, batch_bytes_max
        )
        if not pieces:
            raise InvalidRecordError(f"row {row}: Arrow offsets go back")
        view = memoryview(chunk)
        batches.extend(sealer.seal(ranges[piece[2]][0], view, piece) for piece in pieces)
    return EncodedBatches(batches, order)


def _chunk_bytes(rows: RowColumns, batch_bytes_max: int) -> int:
    """Room for at least one batch, and no more than all rows need if offsets only rise."""
    batch_bytes_max = min(batch_bytes_max, ARROW_READ_BYTES_MAX)
    whole_batches = batch_bytes_max * max(1, ARROW_ENCODE_CHUNK_BYTES // max(1, batch_bytes_max))
    needed = rows.row_count * _RECORD_OVERHEAD_BYTES_MAX + len(rows.value[2])
    if rows.key is not None:
        needed += len(rows.key[2])
    if rows.headers is not None:
        *_, entries, keys, values = rows.headers
        needed += entries * _HEADER_OVERHEAD_BYTES_MAX + len(keys[2]) + len(values[2])
    return min(whole_batches, needed)


# Five varints, one varlong and attributes, of a record alone in its batch; two lengths of a header.
_RECORD_OVERHEAD_BYTES_MAX = 5 * 5 + 10 + 1 + HEADER_BYTES
_HEADER_OVERHEAD_BYTES_MAX = 2 * 5


class _Sealer:
    """Puts codec, header and checksum around encoded records, and counts sequences."""

    def __init__(
        self, compression_type: CompressionType, level: int | None, producer: ProducerFields
    ) -> None:
        self._compression_type = compression_type
        self._level = level
        self._producer = producer
        self._sequences = dict(producer.base_sequences)

    def seal(self, partition: int, chunk: memoryview, piece: types.EncodedBatch) -> EncodedBatch:
        start, end, _, first_row, row_count, base_timestamp, max_timestamp = piece
        base_sequence = self._sequences.get(partition, NO_SEQUENCE)
        if base_sequence != NO_SEQUENCE:
            self._sequences[partition] = increment_sequence(base_sequence, row_count)
        codec = CompressionType.NONE
        batch = chunk[start:end]
        if self._compression_type is not CompressionType.NONE:
            payload = compress(self._compression_type, batch[HEADER_BYTES:], self._level)
            if len(payload) < len(batch) - HEADER_BYTES:
                codec = self._compression_type
                batch = memoryview(bytearray(HEADER_BYTES) + payload)
        HEADER.pack_into(
            batch,
            0,
            0,
            len(batch) - LOG_OVERHEAD_BYTES,
            NO_PARTITION_LEADER_EPOCH,
            MAGIC_V2,
            0,
            codec | (TRANSACTIONAL_FLAG if self._producer.is_transactional else 0),
            row_count - 1,
            base_timestamp,
            max_timestamp,
            self._producer.producer_id,
            self._producer.producer_epoch,
            base_sequence,
            row_count,
        )
        checksum = crc32c(batch[ATTRIBUTES_POSITION:])
        batch[CRC_POSITION:ATTRIBUTES_POSITION] = checksum.to_bytes(4, "big")
        return EncodedBatch(partition, batch, first_row, row_count)
