"""The loops that touch every record: validate, decode to Arrow, encode from Arrow, compact.

One core, uncompressed, values of 100 bytes and keys of 10. Decoding reads all columns of a record
in pieces of 10,000 rows, the size that Spark takes best. Batches have 1 MB where nothing else is
said, and 16 KB, the default of Kafka's producer, where small ones are measured. The best of several
rounds counts: the figures are about the loops, not about their neighbours on the machine.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from benches.figure import Figure, best_microseconds
from kaa.records import KERNEL_NAME, RecordBatch, Validated, validate_produced
from kaa.records.arrow import ColumnReader, Columns
from kaa.records.arrow_encode import RowColumns, encode
from kaa.records.compaction import OffsetMap
from kaa.records.partitioner import partitions_of_keys
from kaa.records.validate import AppendRules

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE_BYTES = 100
KEY_BYTES = 10
# The Python twin is there to be right; it gets fewer records so that a run stays short.
ROWS = 500_000 if KERNEL_NAME == "cython" else 5_000
READ_ROWS = 10_000
LARGE_BATCH_BYTES = 1_000_000
SMALL_BATCH_BYTES = 16_384
NOW_MS = 1_700_000_000_000
UNIT = "million records/s"


def run() -> list[Figure]:
    rows = _rows()
    large = _batches(rows, LARGE_BATCH_BYTES)
    small = _batches(rows, SMALL_BATCH_BYTES)
    fetched, fetched_small = b"".join(large), b"".join(small)
    values = Columns.VALUE | Columns.OFFSET
    batches = [RecordBatch(batch) for batch in large]
    offset_map = OffsetMap(2 * 24 * ROWS, bytes(16))
    cases: list[tuple[str, float | None, Callable[[], int]]] = [
        ("validate", 20, lambda: _validate(large)),
        ("validate, 16 KB batches", None, lambda: _validate(small)),
        ("decode to Arrow", 10, lambda: _decode(fetched)),
        ("decode to Arrow, 16 KB batches", 10, lambda: _decode(fetched_small)),
        ("decode to Arrow, checksums", None, lambda: _decode(fetched, check_crcs=True)),
        ("decode to Arrow, value and offset", None, lambda: _decode(fetched, values)),
        ("encode from Arrow", 5, lambda: _encode(rows, LARGE_BATCH_BYTES)),
        ("encode from Arrow, 16 KB batches", 5, lambda: _encode(rows, SMALL_BATCH_BYTES)),
        ("scan for compaction", None, lambda: _scan(offset_map, batches)),
        ("flags for compaction", None, lambda: _flags(offset_map, batches)),
        ("partition of keys", None, lambda: _partitions(rows)),
    ]
    return [
        Figure(
            name=f"{name} ({KERNEL_NAME})",
            value=ROWS / best_microseconds({name: _counted(call)}, rounds=7)[name],
            unit=UNIT,
            target=target,
        )
        for name, target, call in cases
    ]


def _counted(call: Callable[[], int]) -> Callable[[], None]:
    """A figure is only worth something if every record was treated."""

    def checked() -> None:
        count = call()
        if count != ROWS:
            raise AssertionError(f"{count} records instead of {ROWS}")

    return checked


def _rows() -> RowColumns:
    keys = b"".join(b"%010d" % (row * 7_919 % 10**10) for row in range(ROWS))
    key_ends = array("i", range(0, KEY_BYTES * ROWS + 1, KEY_BYTES))
    value_ends = array("i", range(0, VALUE_BYTES * ROWS + 1, VALUE_BYTES))
    timestamps = array("q", (NOW_MS + row // 100 for row in range(ROWS)))
    return RowColumns(
        ROWS,
        value=(None, value_ends.tobytes(), bytes(range(VALUE_BYTES)) * ROWS, 0, False),
        key=(None, key_ends.tobytes(), keys, 0, False),
        timestamps=(None, timestamps.tobytes(), 0),
    )


def _batches(rows: RowColumns, batch_bytes_max: int) -> list[memoryview]:
    """As a log has them: each batch at the offset of its first row."""
    encoded = encode(rows, NOW_MS, batch_bytes_max=batch_bytes_max)
    for batch in encoded.batches:
        RecordBatch(batch.data).set_base_offset(batch.first_row)
    return [batch.data for batch in encoded.batches]


def _validate(batches: list[memoryview]) -> int:
    rules = AppendRules(message_bytes_max=2 * LARGE_BATCH_BYTES)
    count = 0
    for batch in batches:
        batch[:8] = bytes(8)
        validated = validate_produced(batch, 12, rules, NOW_MS)
        if not isinstance(validated, Validated):
            raise TypeError(f"refused: {validated}")
        count += validated.record_count
    return count


def _decode(fetched: bytes, columns: Columns = Columns.ALL, *, check_crcs: bool = False) -> int:
    reader = ColumnReader(fetched, partition=0, check_crcs=check_crcs)
    count = 0
    while not reader.is_exhausted:
        count += reader.read(columns, rows_max=READ_ROWS).row_count
    return count


def _encode(rows: RowColumns, batch_bytes_max: int) -> int:
    encoded = encode(rows, NOW_MS, batch_bytes_max=batch_bytes_max)
    return sum(batch.row_count for batch in encoded.batches)


def _scan(offset_map: OffsetMap, batches: list[RecordBatch]) -> int:
    offset_map.clear()
    for batch in batches:
        offset_map.scan(batch)
    return offset_map.size


def _flags(offset_map: OffsetMap, batches: list[RecordBatch]) -> int:
    return sum(len(offset_map.flags(batch, batch.payload)) for batch in batches)


def _partitions(rows: RowColumns) -> int:
    if rows.key is None:
        raise AssertionError("the rows have keys")
    return len(partitions_of_keys(rows.key, ROWS, 100, -1)) // 4
