"""Kafka's murmur2 in Python: the twin of `_kernel_murmur2.pxi`, which tells the algorithm."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kaa.records._pure_arrow_encode import BinaryColumn
from kaa.records.errors import InvalidRecordError

if TYPE_CHECKING:
    from kaa.records._pure_arrow_types import BinaryInput
    from kaa.records.batch import Buffer

_MASK = 0xFFFFFFFF
_MIX = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: Buffer) -> int:
    """Kafka's hash of a key, as the signed 32-bit number Java has."""
    key = bytes(data)
    whole = len(key) & ~3
    hashed = _SEED ^ (len(key) & _MASK)
    for index in range(0, whole, 4):
        word = int.from_bytes(key[index : index + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        hashed = hashed * _MIX & _MASK ^ word
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    hashed ^= hashed >> 15
    return hashed - 2**32 if hashed >= 2**31 else hashed


def murmur2_partitions(
    keys: BinaryInput, row_count: int, partition_count: int, null_partition: int
) -> bytearray:
    """The partition of each key of an Arrow column, as int32; null keys get the one given."""
    if partition_count <= 0:
        raise ValueError("a topic has at least one partition")
    column = BinaryColumn(keys, row_count)
    partitions = array("i")
    for row in range(row_count):
        try:
            key = column.element(row)
        except InvalidRecordError as error:
            raise InvalidRecordError(f"row {row}: {error}") from None
        partition = null_partition
        if key is not None:
            partition = (murmur2(key) & 0x7FFFFFFF) % partition_count
        partitions.append(partition)
    return bytearray(partitions.tobytes())
