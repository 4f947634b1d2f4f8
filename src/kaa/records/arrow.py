"""Record batches as Arrow columns.

A `ColumnReader` takes the bytes that a fetch of one partition returned (whole batches, any codec)
and gives them back as raw buffers in Arrow's layout, a bounded piece per `read`:

    reader = ColumnReader(fetched, partition=3, start_offset=500, end_offset=900, aborted=aborted)
    while not reader.is_exhausted:
        rows = reader.read(rows_max=10_000)

What comes out is what Kafka's consumer returns: no control batches, no records outside of the
range of offsets, and none of the aborted transactions that `aborted` names (name those of the
fetch response for `read_committed`, none for `read_uncommitted`). `next_offset` says where to
go on fetching.

The loops are the kernel's; `_kernel_arrow.pxi` tells layout, algorithm and bounds. The way back
is `kaa.records.arrow_encode`; `kaa.records.arrow_pyarrow` makes pyarrow objects of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from struct import Struct
from typing import TYPE_CHECKING, Literal, NamedTuple

from kaa.limits import ARROW_READ_BYTES_MAX, ARROW_READ_ROWS_MAX
from kaa.records import _pure_arrow_types as types
from kaa.records.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    CompressionType,
)
from kaa.records.checksum import crc32c
from kaa.records.compress import decompress_all
from kaa.records.errors import CorruptRecordsError, InvalidRecordError
from kaa.records.kernel import KERNEL_NAME
from kaa.records.legacy import LegacyBatch, upgrade_batch

if TYPE_CHECKING or KERNEL_NAME == "python":
    from kaa.records._pure_arrow import ArrowDecoder
else:
    from kaa.records._kernel import ArrowDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.records.batch import Buffer

OFFSET_MAX = 2**63 - 1

TimestampUnit = Literal["ms", "us"]
_TIMESTAMP_SCALES: dict[TimestampUnit, int] = {"ms": 1, "us": 1000}
_INT32 = Struct("=i")


class Columns(IntFlag):
    """The columns a reader can be asked for."""

    KEY = types.COLUMN_KEY
    VALUE = types.COLUMN_VALUE
    HEADERS = types.COLUMN_HEADERS
    OFFSET = types.COLUMN_OFFSET
    TIMESTAMP = types.COLUMN_TIMESTAMP
    TIMESTAMP_TYPE = types.COLUMN_TIMESTAMP_TYPE
    PARTITION = 64
    ALL = KEY | VALUE | HEADERS | OFFSET | TIMESTAMP | TIMESTAMP_TYPE | PARTITION


class BinaryBuffers(NamedTuple):
    """A column of byte strings, or of lists: those have no data, and offsets that count entries."""

    null_count: int
    validity: bytearray | None
    offsets: bytearray
    data: bytearray


class HeaderBuffers(NamedTuple):
    """A column of lists of entries, and the two columns of the entries."""

    entry_count: int
    lists: BinaryBuffers
    keys: BinaryBuffers
    values: BinaryBuffers


@dataclass(frozen=True, slots=True)
class ColumnBuffers:
    """Rows as raw Arrow buffers. A column that was not asked for is None."""

    row_count: int
    timestamp_unit: TimestampUnit
    key: BinaryBuffers | None
    value: BinaryBuffers | None
    headers: HeaderBuffers | None
    partition: bytes | None
    offset: bytearray | None
    timestamp: bytearray | None
    timestamp_type: bytearray | None


class ColumnReader:
    """Reads fetched batches of one partition as columns, piece by piece.

    `buffer` may end inside a batch, as a fetch does. Where it holds bytes that are not a batch, or
    a batch with a wrong checksum, the rows before that are returned first and the read that gets
    there raises a RecordsError.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        partition: int,
        start_offset: int = 0,
        end_offset: int = OFFSET_MAX,
        aborted: Iterable[tuple[int, int]] = (),
        check_crcs: bool = True,
        timestamp_unit: TimestampUnit = "ms",
    ) -> None:
        """`aborted` has (producer id, first offset) of each aborted transaction."""
        self.partition = partition
        self.timestamp_unit: TimestampUnit = timestamp_unit
        end_offset = max(start_offset, end_offset)
        self._end_offset = end_offset
        self._corruption: str | None = None
        intact = memoryview(buffer)
        if check_crcs:
            intact, self._corruption = _intact_batches(intact, end_offset)
        upgrade = _upgrade_checked if check_crcs else _upgrade
        self._decoder = ArrowDecoder(intact, start_offset, end_offset, aborted, _expand, upgrade)

    @property
    def next_offset(self) -> int:
        """Where to go on: after the last row, or after the last batch when that is read up."""
        return self._decoder.next_offset

    @property
    def is_exhausted(self) -> bool:
        """Whether no later read can return a row."""
        return self._decoder.is_exhausted and not self._is_corruption_next()

    def read(
        self,
        columns: Columns = Columns.ALL,
        rows_max: int = ARROW_READ_ROWS_MAX,
        bytes_max: int = ARROW_READ_BYTES_MAX,
    ) -> ColumnBuffers:
        """The next rows; none only at the end.

        `bytes_max` bounds keys, values and headers together, but never keeps a first row back.
        """
        if rows_max < 1:
            raise ValueError("a read is for one row at least")
        count, key, value, headers, offsets, timestamps, timestamp_types = self._decoder.read(
            int(columns & ~Columns.PARTITION),
            min(rows_max, ARROW_READ_ROWS_MAX),
            min(bytes_max, ARROW_READ_BYTES_MAX),
            _TIMESTAMP_SCALES[self.timestamp_unit],
        )
        if count == 0 and self._corruption is not None and self._is_corruption_next():
            raise CorruptRecordsError(self._corruption)
        return ColumnBuffers(
            row_count=count,
            timestamp_unit=self.timestamp_unit,
            key=None if key is None else BinaryBuffers(*key),
            value=None if value is None else BinaryBuffers(*value),
            headers=None if headers is None else _header_buffers(headers),
            partition=_INT32.pack(self.partition) * count if columns & Columns.PARTITION else None,
            offset=offsets,
            timestamp=timestamps,
            timestamp_type=timestamp_types,
        )

    def _is_corruption_next(self) -> bool:
        return self._corruption is not None and self.next_offset < self._end_offset


def _header_buffers(headers: types.HeadersOutput) -> HeaderBuffers:
    entry_count, lists, keys, values = headers
    return HeaderBuffers(
        entry_count, BinaryBuffers(*lists), BinaryBuffers(*keys), BinaryBuffers(*values)
    )


def _expand(payload: memoryview, codec: int) -> bytes:
    if codec > CompressionType.ZSTD:
        raise CorruptRecordsError(f"unknown compression type id {codec}")
    return decompress_all(CompressionType(codec), payload)


def _upgrade(entry: memoryview) -> bytearray:
    try:
        return upgrade_batch(LegacyBatch(entry))
    except ValueError as error:
        raise InvalidRecordError(f"a message that magic 2 cannot hold: {error}") from error


def _upgrade_checked(entry: memoryview) -> bytearray:
    batch = LegacyBatch(entry)
    if not batch.is_valid_crc():
        raise CorruptRecordsError(
            f"the checksum of the message at offset {batch.last_offset} does not fit"
        )
    return _upgrade(entry)


def _intact_batches(buffer: memoryview, end_offset: int) -> tuple[memoryview, str | None]:
    """The part before the first batch whose checksum does not fit, and what is wrong with that.

    Stops where there is no batch: the decoder says so when it gets there. Old magic has checksums
    of another kind, which are looked at when it is upgraded.
    """
    position = 0
    while len(buffer) - position >= HEADER_BYTES:
        base_offset, length = LOG_OVERHEAD.unpack_from(buffer, position)
        end = position + LOG_OVERHEAD_BYTES + length
        if length <= 0 or end > len(buffer) or base_offset >= end_offset:
            break
        if buffer[position + MAGIC_POSITION] == MAGIC_V2:
            stored = int.from_bytes(
                buffer[position + CRC_POSITION : position + ATTRIBUTES_POSITION], "big"
            )
            if crc32c(buffer[position + ATTRIBUTES_POSITION : end]) != stored:
                return (
                    buffer[:position],
                    f"the checksum of the batch at offset {base_offset} does not fit",
                )
        position = end
    return buffer, None
