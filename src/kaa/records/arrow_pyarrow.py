"""pyarrow batches from and to the raw columns of `kaa.records.arrow` and `arrow_encode`.

Nothing is copied: pyarrow and the kernel look at the same buffers. Columns have the names and types
of Spark's own Kafka connector, and all may be null, so that Spark takes a batch as it is:

| column | type | null |
|---|---|---|
| key | binary | where a record has none |
| value | binary | where a record has none: a tombstone |
| topic | string | never |
| partition | int32 | never |
| offset | int64 | never |
| timestamp | timestamp in UTC, milli- or microseconds | never |
| timestampType | int32: 0 create time, 1 log append time | never |
| headers | list of (key: string, value: binary) structs | where a record has none |

This is the only module of the package that needs pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kaa.records.arrow_encode import RowColumns
from kaa.records.errors import InvalidRecordError
from kaa.records.partitioner import partitions_of_keys

if TYPE_CHECKING:
    from kaa.records import _pure_arrow_types as types
    from kaa.records.arrow import BinaryBuffers, ColumnBuffers, HeaderBuffers
    from kaa.records.batch import Buffer

    Array = pa.Array[Any]

_HEADER_FIELDS: list[pa.Field[Any]] = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
_HEADERS = pa.list_(pa.field("element", pa.struct(_HEADER_FIELDS)))


def record_batch(columns: ColumnBuffers, topic: str | None = None) -> pa.RecordBatch:
    """The rows as a pyarrow batch; with the topic in each row if it is given."""
    count = columns.row_count
    arrays: dict[str, Array] = {}
    if columns.key is not None:
        arrays["key"] = _binary_array(pa.binary(), count, columns.key)
    if columns.value is not None:
        arrays["value"] = _binary_array(pa.binary(), count, columns.value)
    if topic is not None:
        arrays["topic"] = pa.repeat(topic, count)
    for name, kind, values in (
        ("partition", pa.int32(), columns.partition),
        ("offset", pa.int64(), columns.offset),
        ("timestamp", pa.timestamp(columns.timestamp_unit, tz="UTC"), columns.timestamp),
        ("timestampType", pa.int32(), columns.timestamp_type),
    ):
        if values is not None:
            arrays[name] = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], 0)
    if columns.headers is not None:
        arrays["headers"] = _headers_array(count, columns.headers)
    return pa.RecordBatch.from_pydict(arrays)


def _binary_array(kind: pa.DataType, count: int, column: BinaryBuffers) -> Array:
    buffers = [_optional(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers, column.null_count)


def _headers_array(count: int, headers: HeaderBuffers) -> Array:
    entries = pa.StructArray.from_arrays(
        [
            _binary_array(pa.string(), headers.entry_count, headers.keys),
            _binary_array(pa.binary(), headers.entry_count, headers.values),
        ],
        fields=_HEADER_FIELDS,
    )
    lists = headers.lists
    buffers = [_optional(lists.validity), pa.py_buffer(lists.offsets)]
    return pa.Array.from_buffers(_HEADERS, count, buffers, lists.null_count, 0, [entries])


def _optional(validity: bytearray | None) -> pa.Buffer | None:
    return None if validity is None else pa.py_buffer(validity)


# --- rows to write


def row_columns(batch: pa.RecordBatch) -> RowColumns:
    """What `encode` takes of a batch: `value` and, where there are such columns, `key`,
    `headers`, `timestamp` and `partition`. Others are left alone.
    """
    names = batch.schema.names
    return RowColumns(
        row_count=batch.num_rows,
        value=_binary_input(batch.column("value")),
        key=_binary_input(batch.column("key")) if "key" in names else None,
        headers=_headers_input(batch.column("headers")) if "headers" in names else None,
        timestamps=_timestamps_input(batch.column("timestamp")) if "timestamp" in names else None,
        partitions=_partitions_input(batch.column("partition")) if "partition" in names else None,
    )


def key_partitions(keys: Array, partition_count: int, null_partition: int) -> Array:
    """The partition of each key as Kafka's clients choose it; null keys get the one given."""
    partitions = partitions_of_keys(_binary_input(keys), len(keys), partition_count, null_partition)
    return pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(partitions)], 0)


def _binary_input(array: Array) -> types.BinaryInput:
    kind = array.type
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (is_large or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        try:
            array = array.cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeError(f"a column of type {kind} holds no byte strings") from error
    validity, offsets, data = array.buffers()
    return _view(validity), _view(offsets) or b"", _view(data) or b"", array.offset, is_large


def _headers_input(array: Array) -> types.HeadersInput:
    entries = array.values if isinstance(array, pa.ListArray | pa.LargeListArray) else None
    if not isinstance(entries, pa.StructArray):
        raise TypeError(f"headers are lists of (key, value) structs, not {array.type}")
    validity, offsets = array.buffers()[:2]
    return (
        _view(validity),
        _view(offsets) or b"",
        array.offset,
        isinstance(array, pa.LargeListArray),
        _view(entries.buffers()[0]),
        entries.offset,
        len(entries),
        _binary_input(entries.field("key")),
        _binary_input(entries.field("value")),
    )


def _timestamps_input(array: Array) -> types.FixedInput:
    kind = array.type
    if pa.types.is_timestamp(kind):
        if kind.unit != "ms":
            array = array.cast(pa.timestamp("ms", tz=kind.tz), safe=False)
    elif not pa.types.is_int64(kind):
        raise TypeError(f"timestamps are of a timestamp type or int64 milliseconds, not {kind}")
    validity, values = array.buffers()
    return _view(validity), _view(values) or b"", array.offset


def _partitions_input(array: Array) -> types.FixedInput:
    if not pa.types.is_integer(array.type):
        raise TypeError(f"partitions are integers, not {array.type}")
    try:
        array = array.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise InvalidRecordError("a partition number does not fit 32 bits") from error
    validity, values = array.buffers()
    return _view(validity), _view(values) or b"", array.offset


def _view(buffer: pa.Buffer | None) -> Buffer | None:
    return None if buffer is None else memoryview(buffer)
