"""Record batches to Arrow columns in Python: the twin of `_kernel_arrow.pxi`, which explains it.

Slower by two orders of magnitude, equal in every result, bounds and errors included.
"""

from __future__ import annotations

from array import array
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kaa.records._pure_arrow_encode import encode_rows, order_by_partition
from kaa.records._pure_arrow_types import (
    COLUMN_HEADERS,
    COLUMN_KEY,
    COLUMN_OFFSET,
    COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_TYPE,
    COLUMN_VALUE,
)
from kaa.records._pure_record import (
    INT32_MAX,
    INT64_MAX,
    check_area,
    field,
    parse_record,
    read_headers,
    replace_malformed,
    wrapping_sum,
)
from kaa.records.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION, MAGIC_V2
from kaa.records.errors import CorruptRecordsError, InvalidRecordError, RecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.records._pure_arrow_types import BinaryOutput, HeadersOutput, Rows
    from kaa.records._pure_record import ParsedRecord
    from kaa.records.batch import Buffer

__all__ = ["ArrowDecoder", "encode_rows", "order_by_partition"]

LEGACY_RECORD_BYTES_MIN = 14
HEADER_ENTRY_BYTES = 8

_INT32 = Struct(">i")
_MARKER_KEY = Struct(">hh")


class _Column:
    """A binary column, or a list column if it is only given sizes."""

    def __init__(self) -> None:
        self.nulls = 0
        self.validity = bytearray()
        self.offsets = array("i", [0])
        self.data = bytearray()

    def append(self, value: bytes | None) -> None:
        if value is not None:
            self.data += value
        self.append_end(len(self.data), is_null=value is None)

    def append_end(self, end: int, *, is_null: bool) -> None:
        row = len(self.offsets) - 1
        if row % 8 == 0:
            self.validity.append(0)
        if is_null:
            self.nulls += 1
        else:
            self.validity[-1] |= 1 << row % 8
        self.offsets.append(end)

    def finish(self) -> BinaryOutput:
        validity = self.validity if self.nulls else None
        return self.nulls, validity, bytearray(self.offsets.tobytes()), self.data


class _Rows:
    """The wanted columns of one read."""

    def __init__(self, columns: int, rows_max: int, bytes_max: int, timestamp_scale: int) -> None:
        self.columns = columns
        self.rows_max = rows_max
        self.bytes_max = min(bytes_max, INT32_MAX)
        self.timestamp_scale = timestamp_scale
        self.count = 0
        self.bytes_used = 0
        self.entries = 0
        self.key = _Column()
        self.value = _Column()
        self.headers = _Column()
        self.header_keys = _Column()
        self.header_values = _Column()
        self.offsets = array("q")
        self.timestamps = array("q")
        self.timestamp_types = array("i")

    def append(
        self, data: Buffer, record: ParsedRecord, offset: int, timestamp: int, timestamp_type: int
    ) -> bool:
        """Whether the record still had its place in this read."""
        key = value = None
        headers: list[tuple[bytes, bytes | None]] = []
        if self.columns & COLUMN_KEY:
            key = field(data, record.key, record.key_bytes)
        if self.columns & COLUMN_VALUE:
            value = field(data, record.value, record.value_bytes)
        if self.columns & COLUMN_HEADERS:
            headers = [
                (replace_malformed(name), content) for name, content in read_headers(data, record)
            ]
        cost = len(key or b"") + len(value or b"") + HEADER_ENTRY_BYTES * len(headers)
        cost += sum(len(name) + len(content or b"") for name, content in headers)
        if cost > self.bytes_max - self.bytes_used:
            if self.count > 0:
                return False
            if cost > INT32_MAX:
                raise InvalidRecordError("a record is too large for an Arrow column")
        self.key.append(key)
        self.value.append(value)
        self._append_headers(headers)
        self.offsets.append(offset)
        self.timestamps.append(_scaled(timestamp, self.timestamp_scale))
        self.timestamp_types.append(timestamp_type)
        self.count += 1
        self.bytes_used += cost
        return True

    def _append_headers(self, headers: list[tuple[bytes, bytes | None]]) -> None:
        for name, content in headers:
            self.header_keys.append(name)
            self.header_values.append(content)
        self.entries += len(headers)
        self.headers.append_end(self.entries, is_null=not headers)

    def finish(self) -> Rows:
        columns = self.columns
        return (
            self.count,
            self.key.finish() if columns & COLUMN_KEY else None,
            self.value.finish() if columns & COLUMN_VALUE else None,
            self._finish_headers() if columns & COLUMN_HEADERS else None,
            bytearray(self.offsets.tobytes()) if columns & COLUMN_OFFSET else None,
            bytearray(self.timestamps.tobytes()) if columns & COLUMN_TIMESTAMP else None,
            bytearray(self.timestamp_types.tobytes()) if columns & COLUMN_TIMESTAMP_TYPE else None,
        )

    def _finish_headers(self) -> HeadersOutput:
        return (
            self.entries,
            self.headers.finish(),
            self.header_keys.finish(),
            self.header_values.finish(),
        )


def _scaled(timestamp: int, scale: int) -> int:
    bound = INT64_MAX // scale
    if timestamp > bound:
        return INT64_MAX
    if timestamp < -bound:
        return -INT64_MAX
    return timestamp * scale


class _BatchHeader(NamedTuple):
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int
    attributes: int

    @property
    def next_offset(self) -> int:
        return min(self.last_offset + 1, INT64_MAX)

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def timestamp_type(self) -> int:
        return self.attributes >> 3 & 1

    @property
    def is_transactional(self) -> bool:
        return self.attributes >> 4 & 1 == 1

    @property
    def is_control(self) -> bool:
        return self.attributes >> 5 & 1 == 1


def _read_batch_header(data: Buffer, position: int) -> _BatchHeader:
    (
        base_offset,
        _length,
        _epoch,
        _magic,
        _crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        _producer_epoch,
        _sequence,
        record_count,
    ) = HEADER.unpack_from(data, position)
    return _BatchHeader(
        base_offset,
        wrapping_sum(base_offset, last_offset_delta),
        base_timestamp,
        max_timestamp,
        producer_id,
        record_count,
        attributes & 0xFF,
    )


class ArrowDecoder:
    def __init__(
        self,
        buffer: Buffer,
        start_offset: int,
        end_offset: int,
        aborted: Iterable[tuple[int, int]],
        expand: Callable[[memoryview, int], Buffer],
        upgrade: Callable[[memoryview], Buffer] | None = None,
    ) -> None:
        self.position = 0
        self.is_exhausted = False
        self._source = memoryview(buffer)
        self._expand = expand
        self._upgrade = upgrade
        self._next_offset = start_offset
        self._end_offset = end_offset
        self._batch_next_offset = start_offset
        self._aborted = deque(sorted((first, producer) for producer, first in aborted))
        self._aborted_producers: set[int] = set()
        self._watches_producers = bool(self._aborted)
        # What is wrong with the bytes at hand: an exception kept with its traceback would keep
        # this object alive, and with it the caller's buffer.
        self._failure: tuple[type[RecordsError], str] | None = None
        # The batch at hand; no records remain between batches.
        self._header = _BatchHeader(0, 0, 0, 0, 0, 0, 0)
        self._records: Buffer = b""
        self._at = 0
        self._remaining = 0

    @property
    def next_offset(self) -> int:
        return min(self._next_offset, self._end_offset)

    def read(self, columns: int, rows_max: int, bytes_max: int, timestamp_scale: int) -> Rows:
        if self._failure is not None:
            kind, message = self._failure
            raise kind(message)
        rows = _Rows(columns, rows_max, bytes_max, timestamp_scale)
        try:
            while not self.is_exhausted and self._decode_batch(rows):
                if not self.is_exhausted:
                    self._open_batch()
        except RecordsError as error:
            self._failure = (type(error), str(error))
            if rows.count == 0:
                raise
        return rows.finish()

    def _decode_batch(self, rows: _Rows) -> bool:
        """Whether the batch at hand is done; not, when the read has reached a limit."""
        header = self._header
        limit = len(self._records)
        while self._remaining > 0:
            if rows.count >= rows.rows_max:
                return False
            record = parse_record(self._records, self._at, limit)
            if self._remaining == 1 and record.end != limit:
                raise InvalidRecordError("a batch has bytes after its records")
            offset = wrapping_sum(header.base_offset, record.offset_delta)
            if offset >= self._end_offset:
                self._batch_next_offset = self._end_offset
                self._finish_range()
                return True
            if offset >= self._next_offset:
                timestamp = header.max_timestamp
                if header.timestamp_type == 0:
                    timestamp = wrapping_sum(header.base_timestamp, record.timestamp_delta)
                if not rows.append(self._records, record, offset, timestamp, header.timestamp_type):
                    return False
                self._next_offset = offset + 1
            self._at = record.end
            self._remaining -= 1
        return True

    def _finish_range(self) -> None:
        self.is_exhausted = True
        self._next_offset = max(self._next_offset, self._batch_next_offset)

    def _open_batch(self) -> None:
        """Enters the next batch, or passes it, or ends the range."""
        framed = self._frame_batch()
        if framed is None:
            self._finish_range()
            return
        size, magic = framed
        view = self._source[self.position : self.position + size]
        if magic != MAGIC_V2:
            view = self._upgraded(view)
        header = _read_batch_header(view, 0)
        if header.base_offset >= self._end_offset:
            self._batch_next_offset = self._end_offset
            self._finish_range()
            return
        is_aborted = False
        if magic == MAGIC_V2 and self._watches_producers and header.producer_id > -1:
            is_aborted = self._follow_transactions(header, view)
        if is_aborted or header.is_control or header.last_offset < self._next_offset:
            self._batch_next_offset = header.next_offset
            self._next_offset = max(self._next_offset, header.next_offset)
            self.position += size
            return
        records = self._records_of(header, view)
        check_area(records, header.record_count)
        self._batch_next_offset = header.next_offset
        self._header = header
        self._records = records
        self._at = 0
        self._remaining = header.record_count
        self.position += size

    def _frame_batch(self) -> tuple[int, int] | None:
        """Size and magic of the next batch; None where the buffer ends, also inside a batch."""
        available = len(self._source) - self.position
        if available < LOG_OVERHEAD_BYTES:
            return None
        length = _INT32.unpack_from(self._source, self.position + 8)[0]
        if length < LEGACY_RECORD_BYTES_MIN:
            raise self._corrupt()
        if available <= MAGIC_POSITION:
            return None
        magic = self._source[self.position + MAGIC_POSITION]
        size = length + LOG_OVERHEAD_BYTES
        if magic > MAGIC_V2 or (magic == MAGIC_V2 and size < HEADER_BYTES):
            raise self._corrupt()
        if size > available:
            return None
        if magic != MAGIC_V2 and self._upgrade is None:
            raise self._corrupt()
        return size, magic

    def _corrupt(self) -> CorruptRecordsError:
        return CorruptRecordsError(
            f"no batch has the size or the magic found at position {self.position}"
        )

    def _upgraded(self, view: memoryview) -> memoryview:
        assert self._upgrade is not None
        batch = self._upgrade(view)
        if len(batch) < HEADER_BYTES:
            raise CorruptRecordsError("a batch of an older magic became none of magic 2")
        return memoryview(batch)

    def _records_of(self, header: _BatchHeader, view: memoryview) -> Buffer:
        payload = view[HEADER_BYTES:]
        return payload if header.codec == 0 else self._expand(payload, header.codec)

    def _follow_transactions(self, header: _BatchHeader, view: memoryview) -> bool:
        """Whether the batch is aborted; notes which transactions are once it has passed."""
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            self._aborted_producers.add(self._aborted.popleft()[1])
        if not header.is_control:
            return header.is_transactional and header.producer_id in self._aborted_producers
        if self._is_abort_marker(header, view):
            self._aborted_producers.discard(header.producer_id)
            self._watches_producers = bool(self._aborted or self._aborted_producers)
        return False

    def _is_abort_marker(self, header: _BatchHeader, view: memoryview) -> bool:
        if header.record_count <= 0:
            return False
        records = self._records_of(header, view)
        record = parse_record(records, 0, len(records))
        if record.key_bytes < _MARKER_KEY.size:
            raise InvalidRecordError("the key of a control record has no version and type")
        version, kind = _MARKER_KEY.unpack_from(records, record.key)
        if version < 0:
            raise InvalidRecordError("the key of a control record has a negative version")
        return bool(kind == 0)
