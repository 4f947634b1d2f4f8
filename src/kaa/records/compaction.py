"""What a log cleaner needs of batches: which offset is the latest of each key, and what to keep.

A cleaner reads the dirty part of a log twice. First it fills an `OffsetMap` with the latest
offset of every key, until the map is full:

    offset_map = OffsetMap(memory_bytes, seed)
    for batch in iter_batches(segment):
        if offset_map.scan(batch, start_offset):
            break  # full: everything up to latest_offset can be cleaned in this round

Then it asks for the flags of each record against the map, decides, and rewrites the batch:

    records = expanded_records(batch)
    flags = offset_map.flags(batch, records)
    cleaned = retain(batch, records, flags.translate(keep_table(rule)))

What to keep is the cleaner's decision, so it is a table over the flag byte: of a record after the
map, of a key's latest record, of a tombstone. The map needs 24 bytes per key and is bounded by the
memory given; like Kafka's it is used up to 90 %, where searches are still short. The seed must be
secret and random: with it nobody can make up two keys that the map takes for one.

The loops are the kernel's; `_kernel_compaction.pxi` tells the table, the hash and the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import OFFSET_MAP_BYTES_MAX
from kaa.model.topics import NO_TIMESTAMP
from kaa.records._pure_compaction import (
    RECORD_HAS_KEY,
    RECORD_HAS_VALUE,
    RECORD_IS_BEHIND_MAP,
    RECORD_IS_LATEST,
    SLOT_BYTES,
)
from kaa.records.batch import CompressionType, TimestampType
from kaa.records.build import assemble_batch, batch_attributes
from kaa.records.compress import compress, decompress_all
from kaa.records.kernel import KERNEL_NAME

if TYPE_CHECKING or KERNEL_NAME == "python":
    from kaa.records._pure_compaction import (
        offset_map_flags,
        offset_map_get,
        offset_map_scan,
        offset_table,
        retain_records,
    )
else:
    from kaa.records._kernel import (
        offset_map_flags,
        offset_map_get,
        offset_map_scan,
        offset_table,
        retain_records,
    )

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.records.batch import Buffer, RecordBatch

__all__ = [
    "RECORD_HAS_KEY",
    "RECORD_HAS_VALUE",
    "RECORD_IS_BEHIND_MAP",
    "RECORD_IS_LATEST",
    "OffsetMap",
    "empty_batch",
    "expanded_records",
    "keep_table",
    "retain",
]

LOAD_FACTOR = 0.9
_ZEROS = bytes(64 * 1024)


class OffsetMap:
    """The latest offset of every key of a part of a log."""

    def __init__(self, memory_bytes: int, seed: bytes, load_factor: float = LOAD_FACTOR) -> None:
        if not 2 * SLOT_BYTES <= memory_bytes <= OFFSET_MAP_BYTES_MAX:
            raise ValueError(f"an offset map cannot have {memory_bytes} bytes")
        if not 0 < load_factor <= 1:
            raise ValueError(f"load factor {load_factor} is not within 0 and 1")
        if len(seed) != 16:
            raise ValueError("a seed has 16 bytes")
        self.slots = memory_bytes // SLOT_BYTES
        # One slot stays empty whatever the factor says: a search ends there.
        self.size_max = min(int(self.slots * load_factor), self.slots - 1)
        self.size = 0
        self.latest_offset = -1
        self._seed = seed
        self._table = offset_table(self.slots * SLOT_BYTES)

    def scan(self, batch: RecordBatch, start_offset: int = 0, *, is_aborted: bool = False) -> bool:
        """Puts the keys of the records from `start_offset` on; whether the map became full.

        In a full map everything up to `latest_offset` is known, and nothing after it. Records
        of control batches have no keys in this sense, those of aborted transactions do not count.
        A map that met a bad batch is full until it is cleared: nobody knows how many keys it took.
        """
        if not batch.is_control and not is_aborted:
            records = expanded_records(batch)
            size, self.size = self.size, self.size_max
            self.size, latest_offset, is_full = offset_map_scan(
                self._table,
                self._seed,
                size,
                self.size_max,
                records,
                batch.record_count,
                batch.base_offset,
                start_offset,
            )
            self.advance(latest_offset)
            if is_full:
                return True
        if batch.last_offset >= start_offset:
            self.advance(batch.last_offset)
        return False

    def advance(self, offset: int) -> None:
        """Everything up to `offset` is known now."""
        self.latest_offset = max(self.latest_offset, offset)

    def get(self, key: Buffer) -> int:
        """The latest offset of `key`, or -1."""
        return offset_map_get(self._table, self._seed, key)

    def flags(self, batch: RecordBatch, records: Buffer) -> bytearray:
        """One byte for each of the expanded `records` of `batch`: the `RECORD_` flags."""
        return offset_map_flags(
            self._table,
            self._seed,
            records,
            batch.record_count,
            batch.base_offset,
            self.latest_offset,
        )

    def clear(self) -> None:
        self.size = 0
        self.latest_offset = -1
        with memoryview(self._table) as table:
            for start in range(0, len(table), len(_ZEROS)):
                part = table[start : start + len(_ZEROS)]
                part[:] = _ZEROS[: len(part)]


def expanded_records(batch: RecordBatch) -> Buffer:
    """The records of a batch without their codec."""
    if not batch.is_compressed:
        return batch.payload
    return decompress_all(batch.compression_type, batch.payload)


def keep_table(rule: Callable[[int], bool]) -> bytes:
    """A table for `bytes.translate` from the flags of a record to whether `rule` keeps it."""
    return bytes(rule(flags) for flags in range(256))


def retain(
    batch: RecordBatch, records: Buffer, keep: Buffer, delete_horizon_ms: int | None = None
) -> Buffer | None:
    """The batch with only the records whose byte in `keep` is not 0, or None without any.

    Offsets, the last offset and the producer's fields stay as they are; so does the whole batch if
    every record is kept. A new delete horizon takes the place of the base timestamp; a batch that
    has one keeps it.
    """
    if delete_horizon_ms is None:
        if 0 not in memoryview(keep)[: batch.record_count].tobytes():
            return batch.view
        delete_horizon_ms = batch.delete_horizon_ms
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    kept, count, base_timestamp, max_timestamp = retain_records(
        records,
        batch.record_count,
        keep,
        batch.base_timestamp,
        batch.max_timestamp if is_append_time else None,
        delete_horizon_ms,
    )
    if count == 0:
        return None
    return assemble_batch(
        (compress(batch.compression_type, kept),),
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch_attributes(
            batch.compression_type,
            batch.timestamp_type,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            has_delete_horizon=delete_horizon_ms is not None,
        ),
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=count,
    )


def empty_batch(batch: RecordBatch) -> bytearray:
    """The batch without any record: it stays where it is the last to tell a producer's sequence."""
    return assemble_batch(
        (),
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch_attributes(
            CompressionType.NONE,
            batch.timestamp_type,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        ),
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=0,
    )
