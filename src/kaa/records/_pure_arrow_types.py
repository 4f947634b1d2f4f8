"""What goes into and comes out of the Arrow loops of both kernels: plain tuples of buffers.

The layout of the buffers is described in `_kernel_arrow.pxi` and `_kernel_arrow_encode.pxi`.
"""

from kaa.records.batch import Buffer

COLUMN_KEY = 1
COLUMN_VALUE = 2
COLUMN_HEADERS = 4
COLUMN_OFFSET = 8
COLUMN_TIMESTAMP = 16
COLUMN_TIMESTAMP_TYPE = 32

BinaryOutput = tuple[int, bytearray | None, bytearray, bytearray]
"""Null count, validity, offsets, data. Validity is None if nothing is null."""

HeadersOutput = tuple[int, BinaryOutput, BinaryOutput, BinaryOutput]
"""Number of entries, the list itself (without data), keys of the entries, values of the entries."""

Rows = tuple[
    int,
    BinaryOutput | None,
    BinaryOutput | None,
    HeadersOutput | None,
    bytearray | None,
    bytearray | None,
    bytearray | None,
]
"""Row count, key, value, headers, offsets, timestamps, timestamp types. None: not asked for."""

BinaryInput = tuple[Buffer | None, Buffer, Buffer, int, bool]
"""Validity, offsets, data, Arrow offset, whether offsets have 64 bits."""

FixedInput = tuple[Buffer | None, Buffer, int]
"""Validity, values, Arrow offset."""

HeadersInput = tuple[
    Buffer | None, Buffer, int, bool, Buffer | None, int, int, BinaryInput, BinaryInput
]
"""Of the list: validity, offsets, Arrow offset, whether offsets have 64 bits. Of its entries:
validity, Arrow offset, number of entries, keys, values."""

InputColumns = tuple[BinaryInput | None, BinaryInput, HeadersInput | None, FixedInput | None, int]
"""Key, value, headers, timestamps, and the timestamp of rows that have none."""

EncodedBatch = tuple[int, int, int, int, int, int, int]
"""Start and end in the output, index of the range, first row, row count, base and max timestamp."""

EncodedRows = tuple[bytearray, list[EncodedBatch], int]
"""The output, the batches in it, and the row to go on from."""
