"""The Python twin of `_kernel_validate.pxi`: the same scanner with the same results, slower.

A record that lies whole in the chunk is scanned at once. Where a chunk ends inside a record, a
generator goes on field by field and waits for the next chunk wherever bytes are missing; it keeps
no byte of any field, so a batch is validated in constant memory however far it expands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.records.errors import InvalidRecordError
from kaa.records.varint import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    VarintLongError,
    VarintShortError,
    read_varint,
    read_varlong,
    varint_size,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from kaa.records.batch import Buffer

SCAN_MORE = 0
SCAN_DONE = 1
SCAN_INVALID = 2
SCAN_ILLEGAL_LENGTH = 3

ERROR_NO_KEY = 1
ERROR_TIMESTAMP = 2
ERROR_APPEND_TIME = 3

_INT64 = 1 << 63
_UINT64_MASK = (1 << 64) - 1


class _IllegalLengthError(InvalidRecordError):
    """The length field of a record is not a varint."""


def _wrap(value: int) -> int:
    """`value` as 64-bit arithmetic leaves it."""
    return (value + _INT64 & _UINT64_MASK) - _INT64


class RecordScanner:
    """One batch being validated: `feed` its records in chunks of any size, then `finish`."""

    def __init__(
        self,
        *,
        record_count: int,
        base_timestamp: int,
        append_time: int | None,
        now_ms: int,
        before_max_ms: int,
        after_max_ms: int,
        is_create_time_topic: bool,
        requires_key: bool,
        checks_lengths: bool,
        tracks_canonical: bool,
        error_count_max: int,
        unlocked_bytes_min: int,
    ) -> None:
        self._record_count = record_count
        self._base_timestamp = base_timestamp
        self._append_time = append_time
        self._now_ms = now_ms
        self._before_max_ms = before_max_ms
        self._after_max_ms = after_max_ms
        self._is_create_time_topic = is_create_time_topic
        self._requires_key = requires_key
        self._checks_lengths = checks_lengths
        self._tracks_canonical = tracks_canonical
        self._error_count_max = error_count_max
        # The lock is a matter of the compiled twin; here it is only accepted.
        self._unlocked_bytes_min = unlocked_bytes_min
        self._status = SCAN_DONE if record_count == 0 else SCAN_MORE
        self._is_canonical = True
        self._canonical_bytes = 0
        # The chunk being scanned; a record that spans chunks goes on in the generator.
        self._data: Buffer = b""
        self._position = 0
        self._spanning: Generator[None, None, None] | None = None
        self.record_index = 0
        self.max_timestamp = -1
        self.max_timestamp_offset_delta = -1
        self.is_consecutive = True
        self.has_timestamp_error = False
        self.scanned_bytes = 0
        self.errors: list[tuple[int, int, int]] = []

    @property
    def is_canonical(self) -> bool:
        return (
            self._tracks_canonical
            and self._is_canonical
            and self._canonical_bytes == self.scanned_bytes
        )

    def feed(self, chunk: Buffer) -> int:
        """Scans the next bytes; anything after the last record makes the batch invalid."""
        if len(chunk) == 0 or self._status > SCAN_DONE:
            return self._status
        self.scanned_bytes += len(chunk)
        self._data = memoryview(chunk)
        self._position = 0
        try:
            self._status = self._scan_chunk()
        except _IllegalLengthError:
            self._status = SCAN_ILLEGAL_LENGTH
        except InvalidRecordError:
            self._status = SCAN_INVALID
        self._data = b""
        return self._status

    def finish(self) -> int:
        """Says that no bytes follow: a record that still misses some makes the batch invalid."""
        if self._status == SCAN_MORE:
            self._status = SCAN_INVALID
        return self._status

    def _scan_chunk(self) -> int:
        size = len(self._data)
        while self.record_index < self._record_count:
            if self._spanning is None and not self._scan_record():
                self._spanning = self._span_record()
            if self._spanning is not None:
                if next(self._spanning, self) is not self:
                    return SCAN_MORE
                self._spanning = None
        return SCAN_DONE if self._position == size else SCAN_INVALID

    # --- a record that lies whole in the chunk

    def _scan_record(self) -> bool:
        """False, with nothing changed, if the chunk may end inside this record."""
        data, limit = self._data, len(self._data)
        canonical_bytes = self._canonical_bytes
        try:
            length, position = read_varint(data, self._position, limit)
        except VarintShortError:
            return False
        except VarintLongError as error:
            raise _IllegalLengthError from error
        end = limit
        if self._checks_lengths:
            if length <= 0:
                raise InvalidRecordError
            if length > limit - position:
                return False
            end = position + length
        try:
            self._scan_fields(data, position, end, length)
        except VarintShortError:
            if self._checks_lengths:
                raise
            self._canonical_bytes = canonical_bytes
            return False
        return True

    def _scan_fields(self, data: Buffer, position: int, end: int, length: int) -> None:
        if position >= end:
            raise VarintShortError
        attributes = data[position]
        timestamp_delta, position = read_varlong(data, position + 1, end)
        offset_delta, position = read_varint(data, position, end)
        key_length, position = self._skip_field(data, position, end)
        _, position = self._skip_field(data, position, end)
        header_count, position = read_varint(data, position, end)
        if header_count < 0:
            raise InvalidRecordError
        for _ in range(header_count):
            size, position = self._skip_field(data, position, end)
            if size < 0:
                raise InvalidRecordError
            if self._tracks_canonical:
                self._track_header_key(data[position - size : position])
            _, position = self._skip_field(data, position, end)
        if self._checks_lengths and position != end:
            raise InvalidRecordError
        self._track(length, timestamp_delta, offset_delta, header_count)
        self._track_attributes(attributes)
        self._complete_record(timestamp_delta, offset_delta, key_length)
        self._position = position

    def _skip_field(self, data: Buffer, position: int, end: int) -> tuple[int, int]:
        length, position = read_varint(data, position, end)
        if length > end - position:
            raise VarintShortError
        self._track_length(length)
        return length, position + max(0, length)

    # --- a record that spans chunks

    def _span_record(self) -> Generator[None, None, None]:
        """Scans one record from where the chunk stands, yielding wherever bytes are missing."""
        try:
            length = yield from self._span_varint(None, VARINT_BYTES_MAX)
        except VarintLongError as error:
            raise _IllegalLengthError from error
        if self._checks_lengths and length <= 0:
            raise InvalidRecordError
        left = _Left(length) if self._checks_lengths else None
        while self._position >= len(self._data):
            yield
        self._track_attributes(self._data[self._position])
        self._take(1, left)
        timestamp_delta = yield from self._span_varint(left, VARLONG_BYTES_MAX)
        offset_delta = yield from self._span_varint(left, VARINT_BYTES_MAX)
        key_length = yield from self._span_field(left)
        yield from self._span_field(left)
        header_count = yield from self._span_varint(left, VARINT_BYTES_MAX)
        if header_count < 0:
            raise InvalidRecordError
        for _ in range(header_count):
            if (yield from self._span_field(left, is_header_key=True)) < 0:
                raise InvalidRecordError
            yield from self._span_field(left)
        if left is not None and left.size != 0:
            raise InvalidRecordError
        self._track(length, timestamp_delta, offset_delta, header_count)
        self._complete_record(timestamp_delta, offset_delta, key_length)

    def _take(self, size: int, left: _Left | None) -> None:
        """Moves on by `size` bytes, which a record of checked length must still have."""
        if left is not None:
            left.size -= size
            if left.size < 0:
                raise InvalidRecordError
        self._position += size

    def _span_varint(self, left: _Left | None, bytes_max: int) -> Generator[None, None, int]:
        held = bytearray()
        while not held or held[-1] >= 0x80:
            if len(held) == bytes_max:
                raise VarintLongError
            while self._position >= len(self._data):
                if left is not None and left.size == 0:
                    raise InvalidRecordError
                yield
            held.append(self._data[self._position])
            self._take(1, left)
        read = read_varint if bytes_max == VARINT_BYTES_MAX else read_varlong
        return read(held, 0, len(held))[0]

    def _span_field(
        self, left: _Left | None, *, is_header_key: bool = False
    ) -> Generator[None, None, int]:
        length = yield from self._span_varint(left, VARINT_BYTES_MAX)
        if is_header_key and length < 0:
            return length
        self._track_length(length)
        missing = max(0, length)
        while missing:
            if self._position >= len(self._data):
                if left is not None and left.size == 0:
                    raise InvalidRecordError
                yield
            size = min(missing, len(self._data) - self._position)
            if is_header_key and self._tracks_canonical:
                self._track_header_key(self._data[self._position : self._position + size])
            self._take(size, left)
            missing -= size
        return length

    # --- what a record adds up to

    def _complete_record(self, timestamp_delta: int, offset_delta: int, key_length: int) -> None:
        timestamp = self._append_time
        if timestamp is None:
            timestamp = _wrap(self._base_timestamp + timestamp_delta)
        if self._requires_key and key_length < 0:
            self._note_error(ERROR_NO_KEY, timestamp)
        elif self._is_create_time_topic and timestamp != -1:
            age = _wrap(self._now_ms - timestamp)
            if age > self._before_max_ms or _wrap(-age) > self._after_max_ms:
                self._note_error(ERROR_TIMESTAMP, timestamp)
        elif self._append_time is not None:
            self._note_error(ERROR_APPEND_TIME, timestamp)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset_delta = offset_delta
        if offset_delta != self.record_index:
            self.is_consecutive = False
        if timestamp < -1 or (self.record_index == 0 and timestamp_delta != 0):
            self._is_canonical = False
        self.record_index += 1

    def _note_error(self, kind: int, timestamp: int) -> None:
        if kind != ERROR_NO_KEY:
            self.has_timestamp_error = True
        if len(self.errors) < self._error_count_max:
            self.errors.append((self.record_index, kind, timestamp))

    def _track(self, length: int, timestamp_delta: int, offset_delta: int, count: int) -> None:
        if self._tracks_canonical:
            self._canonical_bytes += varint_size(length) + 1 + varint_size(timestamp_delta)
            self._canonical_bytes += varint_size(offset_delta) + varint_size(count)

    def _track_length(self, length: int) -> None:
        if self._tracks_canonical:
            self._canonical_bytes += varint_size(length) + max(0, length)
            if length < -1:
                self._is_canonical = False

    def _track_attributes(self, attributes: int) -> None:
        if attributes != 0:
            self._is_canonical = False

    def _track_header_key(self, key: Buffer) -> None:
        if not bytes(key).isascii():
            self._is_canonical = False


class _Left:
    """Bytes that the record being scanned still has."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


def scan_plain(
    records: Buffer,
    bytes_max: int,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
    is_create_time_topic: bool,
    requires_key: bool,
    unlocked_bytes_min: int,
    /,
) -> tuple[int, int] | None:
    """The greatest timestamp and the offset delta of its first record, if this is one whole batch
    of a client, not compressed, to which nothing can be objected but its checksum. None stands for
    anything else, and is no refusal: somebody has to look closer.

    That is always said here: step by step (`RecordScanner`) is all that Python can do.
    """
    del records, bytes_max, now_ms, before_max_ms, after_max_ms
    del is_create_time_topic, requires_key, unlocked_bytes_min
    return None
