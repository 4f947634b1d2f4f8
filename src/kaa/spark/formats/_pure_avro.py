"""The Python twin of the compiled Avro decoder `_avro.pyx`, which tells how both work.

Same program in, same buffers and errors out; kept plain, since it runs only where nothing could be
compiled.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.records.batch import Buffer

    Column = tuple[int, int, Buffer | None, Buffer | None, Buffer | None]
    NodeProgram = tuple[int, int, int, int, tuple[int, ...], tuple[bytes, ...]]

(NULL_KIND, BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTES, STRING) = range(8)
(FIXED, ENUM, DECIMAL, DECIMAL_FIXED, RECORD, ARRAY, MAP, UNION) = range(8, 16)

ERRORS: Final = {
    1: "the value ends too early",
    2: "a number has too many bytes",
    3: "a length is negative",
    4: "a union has no such branch",
    5: "a string is not UTF-8",
    6: "an enum has no such symbol",
    7: "a decimal does not fit 128 bits",
    8: "a boolean is neither 0 nor 1",
    9: "a count of items cannot be right",
    10: "a number is out of range",
    11: "bytes are left over",
}
"""What the codes of errors mean; the compiled decoder has the same numbers."""

(TRUNCATED, BAD_VARINT, BAD_LENGTH, BAD_BRANCH, BAD_UTF8, BAD_SYMBOL) = range(1, 7)
(BAD_DECIMAL, BAD_BOOLEAN, BAD_COUNT, OUT_OF_RANGE, LEFT_OVER) = range(7, 12)

_EMPTY_ITEMS_MAX: Final = 65_536
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_ZEROS: Final = {INT32: 4, FLOAT: 4, INT64: 8, DOUBLE: 8, DECIMAL: 16, DECIMAL_FIXED: 16}
_VARIABLE: Final = frozenset({BYTES, STRING, FIXED, ENUM, ARRAY, MAP})
_INT32: Final = Struct("=i")
_INT64: Final = Struct("=q")


class _RecordError(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class _Column:
    """What one node has collected."""

    __slots__ = ("bits", "data", "ends", "kind", "valid")

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.valid: list[bool] = []
        self.ends: list[int] = [0]
        self.data = bytearray()
        self.bits: list[bool] = []

    def close(self, *, valid: bool, items: int | None = None) -> None:
        self.valid.append(valid)
        if self.kind in _VARIABLE:
            end = self.ends[-1] + items if items is not None else len(self.data)
            if self.kind in {ARRAY, MAP} and items is None:
                end = self.ends[-1]
            if end > _INT32_MAX:
                raise _RecordError(BAD_COUNT)
            self.ends.append(end)

    def buffers(self) -> Column:
        nulls = self.valid.count(False)
        validity = _bitmap(self.valid) if nulls and self.kind != NULL_KIND else None
        offsets = array("i", self.ends).tobytes() if self.kind in _VARIABLE else None
        data: Buffer | None = bytes(self.data)
        if self.kind == BOOLEAN:
            data = _bitmap(self.bits)
        elif self.kind in {NULL_KIND, RECORD, UNION, ARRAY, MAP}:
            data = None
        return len(self.valid), nulls, validity, offsets, data


def _bitmap(values: Sequence[bool]) -> bytes:
    packed = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            packed[index >> 3] |= 1 << (index & 7)
    return bytes(packed)


class AvroDecoder:
    """Decodes Avro values to the columns of one compiled schema."""

    def __init__(self, program: Sequence[NodeProgram]) -> None:
        self._program = tuple(program)
        self._columns: list[_Column] = []
        self._data = memoryview(b"")
        self._at = 0
        self._end = 0

    def decode(
        self,
        validity: Buffer | None,
        offsets: Buffer,
        data: Buffer,
        start: int,
        rows: int,
        skip: int,
    ) -> tuple[list[Column], list[tuple[int, int, int]]]:
        """Decodes a binary column; `skip` bytes before each value are not Avro.

        Returns the columns, (length, nulls, validity, offsets, data) for each node, and the errors
        as (row, code, position).
        """
        self._columns = [_Column(node[0]) for node in self._program]
        self._data = memoryview(data).cast("B")
        ends = memoryview(offsets).cast("B").cast("i")
        bits = None if validity is None else memoryview(validity).cast("B")
        errors = []
        for row in range(start, start + rows):
            if bits is not None and not bits[row >> 3] >> (row & 7) & 1:
                self._add_null(0)
                continue
            self._end = ends[row + 1]
            self._at = min(ends[row] + skip, self._end)
            try:
                self._decode(0)
                if self._at != self._end:
                    raise _RecordError(LEFT_OVER)
            except _RecordError as error:
                self._truncate(0, row - start)
                self._add_null(0)
                errors.append((row - start, error.code, self._at - ends[row]))
        return [column.buffers() for column in self._columns], errors

    # --- reading

    def _long(self) -> int:
        result = shift = 0
        while shift < 64:
            if self._at >= self._end:
                raise _RecordError(TRUNCATED)
            byte = self._data[self._at]
            self._at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                result &= 2**64 - 1
                return (result >> 1) ^ -(result & 1)
            shift += 7
        raise _RecordError(BAD_VARINT)

    def _take(self, size: int) -> memoryview:
        if size > self._end - self._at:
            raise _RecordError(TRUNCATED)
        self._at += size
        return self._data[self._at - size : self._at]

    # --- one node

    def _decode(self, index: int) -> None:
        kind, _, null_branch, _, children, _ = self._program[index]
        column = self._columns[index]
        if kind == UNION:
            branch = self._long()
            if not 0 <= branch < len(children):
                raise _RecordError(BAD_BRANCH)
            if children[branch] < 0:
                self._add_null(index)
                return
            for number, child in enumerate(children):
                if child >= 0 and number == branch:
                    self._decode(child)
                elif child >= 0:
                    self._add_null(child)
            column.valid.append(True)
            return
        if null_branch >= 0:
            branch = self._long()
            if branch == null_branch:
                self._add_null(index)
                return
            if branch != 1 - null_branch:
                raise _RecordError(BAD_BRANCH)
        if kind == NULL_KIND:
            self._add_null(index)
            return
        column.close(valid=True, items=self._value(index))

    def _value(self, index: int) -> int | None:
        """Adds a value; for a list the number of its items."""
        kind, size, _, _, children, symbols = self._program[index]
        column = self._columns[index]
        if kind in {INT32, INT64}:
            column.data += self._number(index)
        elif kind in {FLOAT, DOUBLE}:
            column.data += self._take(_ZEROS[kind])
        elif kind == BOOLEAN:
            if self._at < self._end and self._data[self._at] > 1:
                raise _RecordError(BAD_BOOLEAN)
            column.bits.append(self._take(1)[0] == 1)
        elif kind == RECORD:
            for child in children:
                self._decode(child)
        elif kind in {ARRAY, MAP}:
            return self._items(children)
        elif kind == ENUM:
            symbol = self._long()
            if not 0 <= symbol < size:
                raise _RecordError(BAD_SYMBOL)
            column.data += symbols[symbol]
        else:
            self._binary(kind, size, column)
        return None

    def _number(self, index: int) -> bytes:
        kind, _, _, scale, _, _ = self._program[index]
        value = self._long()
        if kind == INT32:
            if not -_INT32_MAX - 1 <= value <= _INT32_MAX:
                raise _RecordError(OUT_OF_RANGE)
            return _INT32.pack(value)
        if scale > 1:
            if abs(value) > _INT64_MAX // scale:
                raise _RecordError(OUT_OF_RANGE)
            value *= scale
        elif scale < 0:
            value //= -scale
        return _INT64.pack(value)

    def _items(self, children: tuple[int, ...]) -> int:
        total = 0
        while count := self._long():
            if count < 0:
                self._long()
                if count < -_INT64_MAX:
                    raise _RecordError(BAD_COUNT)
                count = -count
            if count > self._end - self._at and count > _EMPTY_ITEMS_MAX:
                raise _RecordError(BAD_COUNT)
            for _ in range(count):
                for child in children:
                    self._decode(child)
            total += count
        return total

    def _binary(self, kind: int, size: int, column: _Column) -> None:
        if kind not in {FIXED, DECIMAL_FIXED}:
            size = self._long()
            if size < 0:
                raise _RecordError(BAD_LENGTH)
            if size > self._end - self._at:
                raise _RecordError(TRUNCATED)
        before = self._at
        data = bytes(self._take(size))
        self._at = before  # Where the value begins is what an error names.
        if kind == STRING:
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise _RecordError(BAD_UTF8) from error
        elif kind in {DECIMAL, DECIMAL_FIXED}:
            self._at += size
            try:
                if not data:
                    raise _RecordError(BAD_DECIMAL)
                data = int.from_bytes(data, "big", signed=True).to_bytes(16, "little", signed=True)
            except OverflowError as error:
                raise _RecordError(BAD_DECIMAL) from error
        column.data += data
        self._at = before + size

    # --- rows without a value

    def _add_null(self, index: int) -> None:
        kind, _, _, _, children, _ = self._program[index]
        column = self._columns[index]
        if kind in {RECORD, UNION}:
            for child in children:
                if child >= 0:
                    self._add_null(child)
        elif kind == BOOLEAN:
            column.bits.append(False)
        column.data += bytes(_ZEROS.get(kind, 0))
        column.close(valid=False)

    def _truncate(self, index: int, length: int) -> None:
        kind, _, _, _, children, _ = self._program[index]
        column = self._columns[index]
        del column.valid[length:], column.bits[length:]
        if kind in _ZEROS:
            del column.data[length * _ZEROS[kind] :]
        if kind in _VARIABLE:
            del column.ends[length + 1 :]
            length = column.ends[-1]
            if kind not in {ARRAY, MAP}:
                del column.data[length:]
        for child in children:
            if child >= 0:
                self._truncate(child, length)


def frame_ids(
    validity: Buffer | None, offsets: Buffer, data: Buffer, start: int, rows: int
) -> bytes:
    """The schema id of each value in Confluent's frame: -1 where it is null, -2 without a frame."""
    ends = memoryview(offsets).cast("B").cast("i")
    bits = None if validity is None else memoryview(validity).cast("B")
    source = memoryview(data).cast("B")
    ids = array("i")
    for row in range(start, start + rows):
        at = ends[row]
        if bits is not None and not bits[row >> 3] >> (row & 7) & 1:
            ids.append(-1)
        elif ends[row + 1] - at < 5 or source[at] != 0 or source[at + 1] & 0x80:
            ids.append(-2)
        else:
            ids.append(int.from_bytes(source[at + 1 : at + 5], "big"))
    return ids.tobytes()
