"""Which partition a keyed record belongs to, equal to Kafka's own clients in every language.

The hash is murmur2 (`_kernel_murmur2.pxi` tells the algorithm); the partition is the hash without
its sign bit, modulo the number of partitions. Records without a key may go anywhere: where, is the
producer's choice, not made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.records.kernel import KERNEL_NAME

if TYPE_CHECKING or KERNEL_NAME == "python":
    from kaa.records._pure_murmur2 import murmur2, murmur2_partitions
else:
    from kaa.records._kernel import murmur2, murmur2_partitions

if TYPE_CHECKING:
    from kaa.records._pure_arrow_types import BinaryInput
    from kaa.records.batch import Buffer

__all__ = ["murmur2", "partition_of_key", "partitions_of_keys"]


def partition_of_key(key: Buffer, partition_count: int) -> int:
    if partition_count <= 0:
        raise ValueError("a topic has at least one partition")
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partitions_of_keys(
    keys: BinaryInput, row_count: int, partition_count: int, null_partition: int
) -> bytearray:
    """The partition of each key of an Arrow column, as int32; null keys get the one given."""
    return murmur2_partitions(keys, row_count, partition_count, null_partition)
