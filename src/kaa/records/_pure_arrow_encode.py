"""Arrow columns to records in Python: the twin of `_kernel_arrow_encode.pxi`."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING

from kaa.records._pure_record import INT32_MAX
from kaa.records.batch import HEADER_BYTES
from kaa.records.errors import InvalidRecordError
from kaa.records.varint import encode_varint

if TYPE_CHECKING:
    from kaa.records._pure_arrow_types import (
        BinaryInput,
        EncodedBatch,
        EncodedRows,
        FixedInput,
        HeadersInput,
        InputColumns,
    )
    from kaa.records.batch import Buffer

_SMALL = Struct("=i")
_LARGE = Struct("=q")


def encode_rows(
    capacity: int,
    columns: InputColumns,
    row_count: int,
    order: Buffer | None,
    range_ends: Buffer,
    first_row: int,
    batch_bytes_max: int,
) -> EncodedRows:
    """A buffer of at most `capacity` bytes with batches of the rows from `first_row` on.

    Returns the buffer, the batches in it, and the row to go on from.
    """
    rows = _InputRows(columns, row_count, order)
    batch_bytes_max = min(batch_bytes_max, INT32_MAX)
    out = bytearray()
    batches: list[EncodedBatch] = []
    row = first_row
    for range_index, row_end in enumerate(array("q", bytes(range_ends))):
        while row < row_end:
            encoded = _encode_batch(rows, row, row_end, batch_bytes_max, capacity - len(out))
            if encoded is None:
                return out, batches, row
            batch, count, base_timestamp, max_timestamp = encoded
            span = (len(out), len(out) + len(batch))
            batches.append((*span, range_index, row, count, base_timestamp, max_timestamp))
            out += batch
            row += count
    return out, batches, row


def _encode_batch(
    rows: _InputRows, first_row: int, row_end: int, bytes_max: int, room: int
) -> tuple[bytearray, int, int, int] | None:
    """A batch with its row count, base and max timestamp; None if there is no room for it."""
    batch = bytearray(HEADER_BYTES)
    row = first_row
    base_timestamp = max_timestamp = -1
    while row < row_end:
        timestamp, fields = rows.fields(row)
        if row == first_row:
            base_timestamp = timestamp
        deltas = encode_varint(timestamp - base_timestamp) + encode_varint(row - first_row)
        body = b"\0" + deltas + b"".join(fields)
        record = encode_varint(len(body)) + body
        if len(record) > bytes_max - len(batch):
            if row > first_row:
                break
            raise rows.error(row, "the record is larger than a batch may be")
        if len(record) > room - len(batch):
            return None
        batch += record
        row += 1
        max_timestamp = max(max_timestamp, timestamp)
    return batch, row - first_row, base_timestamp, max_timestamp


class _InputRows:
    """The columns of a call, checked to be as long as its rows need."""

    def __init__(self, columns: InputColumns, row_count: int, order: Buffer | None) -> None:
        key, value, headers, timestamps, default_timestamp = columns
        self._row_count = row_count
        self._default_timestamp = default_timestamp
        self._value = BinaryColumn(value, row_count)
        self._key = None if key is None else BinaryColumn(key, row_count)
        self._timestamps = timestamps
        if timestamps is not None:
            _check_fixed(timestamps, row_count, _LARGE.size)
        self._headers = None if headers is None else _HeadersColumn(headers, row_count)
        self._order = order
        if order is not None:
            _check_bytes(order, _SMALL.size * row_count)

    def number(self, row: int) -> int:
        """The number of a row in its columns, by its place in the order."""
        if self._order is None:
            return row
        number: int = _SMALL.unpack_from(self._order, _SMALL.size * row)[0]
        return number

    def error(self, row: int, reason: object) -> InvalidRecordError:
        return InvalidRecordError(f"row {self.number(row)}: {reason}")

    def fields(self, row: int) -> tuple[int, list[bytes]]:
        """The timestamp of a row, and what follows the deltas in its record."""
        try:
            return self._fields(self.number(row))
        except InvalidRecordError as error:
            raise self.error(row, error) from None

    def _fields(self, row: int) -> tuple[int, list[bytes]]:
        if not 0 <= row < self._row_count:
            raise InvalidRecordError("Arrow offsets point outside of their data")
        timestamp = self._timestamp(row)
        fields = [_field(None if self._key is None else self._key.element(row))]
        fields.append(_field(self._value.element(row)))
        headers = [] if self._headers is None else self._headers.element(row)
        fields.append(encode_varint(len(headers)))
        for name, content in headers:
            fields.append(_field(name))
            fields.append(_field(content))
        return timestamp, fields

    def _timestamp(self, row: int) -> int:
        if self._timestamps is None:
            return self._default_timestamp
        validity, values, first = self._timestamps
        if not _is_valid(validity, first + row):
            return self._default_timestamp
        timestamp: int = _LARGE.unpack_from(values, _LARGE.size * (first + row))[0]
        if timestamp < 0:
            raise InvalidRecordError("the timestamp is negative")
        return timestamp


class BinaryColumn:
    """A column of byte strings inside Arrow buffers."""

    def __init__(self, column: BinaryInput, rows: int) -> None:
        self._validity, self._offsets, data, self._first, is_large = column
        if self._first < 0 or rows < 0:
            raise InvalidRecordError("an Arrow array has a negative offset or length")
        self._data = memoryview(data)
        self._rows = rows
        self._number = _LARGE if is_large else _SMALL
        _check_bytes(self._validity, (self._first + rows + 7) // 8)
        if rows > 0:
            _check_bytes(self._offsets, (self._first + rows + 1) * self._number.size)

    def element(self, row: int) -> bytes | None:
        if not 0 <= row < self._rows:
            raise InvalidRecordError("Arrow offsets point outside of their data")
        index = self._first + row
        if not _is_valid(self._validity, index):
            return None
        start = self._number.unpack_from(self._offsets, index * self._number.size)[0]
        end = self._number.unpack_from(self._offsets, (index + 1) * self._number.size)[0]
        if not 0 <= start <= end <= len(self._data):
            raise InvalidRecordError("Arrow offsets point outside of their data")
        return bytes(self._data[start:end])


class _HeadersColumn:
    """A column of lists of (key, value) structs inside Arrow buffers."""

    def __init__(self, column: HeadersInput, rows: int) -> None:
        (
            self._validity,
            self._offsets,
            self._first,
            is_large,
            self._entry_validity,
            self._entry_first,
            self._entries,
            keys,
            values,
        ) = column
        if self._first < 0 or self._entry_first < 0 or self._entries < 0:
            raise InvalidRecordError("an Arrow array has a negative offset or length")
        self._number = _LARGE if is_large else _SMALL
        _check_bytes(self._validity, (self._first + rows + 7) // 8)
        if rows > 0:
            _check_bytes(self._offsets, (self._first + rows + 1) * self._number.size)
        _check_bytes(self._entry_validity, (self._entry_first + self._entries + 7) // 8)
        self._keys = BinaryColumn(keys, self._entries)
        self._values = BinaryColumn(values, self._entries)

    def element(self, row: int) -> list[tuple[bytes, bytes | None]]:
        index = self._first + row
        if not _is_valid(self._validity, index):
            return []
        start = self._number.unpack_from(self._offsets, index * self._number.size)[0]
        end = self._number.unpack_from(self._offsets, (index + 1) * self._number.size)[0]
        if not 0 <= start <= end <= self._entries:
            raise InvalidRecordError("Arrow offsets point outside of their data")
        headers = []
        for entry in range(start, end):
            name = None
            if _is_valid(self._entry_validity, self._entry_first + entry):
                name = self._keys.element(entry)
            if name is None:
                raise InvalidRecordError("a header or its key is null")
            headers.append((name, self._values.element(entry)))
        return headers


def order_by_partition(
    validity: Buffer | None, values: Buffer, first: int, row_count: int, partition_count: int
) -> tuple[bytearray, list[tuple[int, int, int]]]:
    """The rows sorted by partition, stable, and where each partition begins and ends among them."""
    _check_fixed((validity, values, first), row_count, _SMALL.size)
    partitions = []
    for row in range(row_count):
        partition = _SMALL.unpack_from(values, _SMALL.size * (first + row))[0]
        if not _is_valid(validity, first + row) or not 0 <= partition < partition_count:
            raise InvalidRecordError(f"row {row}: the partition is null or does not exist")
        partitions.append(partition)
    order = array("i", sorted(range(row_count), key=partitions.__getitem__))
    ranges: list[tuple[int, int, int]] = []
    for place, row in enumerate(order):
        if ranges and ranges[-1][0] == partitions[row]:
            ranges[-1] = (partitions[row], ranges[-1][1], place + 1)
        else:
            ranges.append((partitions[row], place, place + 1))
    return bytearray(order.tobytes()), ranges


def _field(value: bytes | None) -> bytes:
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value


def _is_valid(validity: Buffer | None, index: int) -> bool:
    return validity is None or validity[index >> 3] >> (index & 7) & 1 == 1


def _check_fixed(column: FixedInput, rows: int, width: int) -> None:
    validity, values, first = column
    if first < 0:
        raise InvalidRecordError("an Arrow array has a negative offset")
    _check_bytes(validity, (first + rows + 7) // 8)
    _check_bytes(values, width * (first + rows))


def _check_bytes(buffer: Buffer | None, bytes_min: int) -> None:
    if buffer is not None and len(buffer) < bytes_min:
        raise InvalidRecordError("a buffer is shorter than its rows need")
