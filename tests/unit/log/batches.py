"""Batches for the tests of the log: small, valid, and easy to tell apart."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from crc32c import crc32c

from kaa.records.batch import CONTROL_FLAG, HEADER, HEADER_BYTES, TRANSACTIONAL_FLAG
from kaa.records.record import encode_record

if TYPE_CHECKING:
    from collections.abc import Sequence

ABORT, COMMIT = 0, 1


def batch(
    records: int | Sequence[tuple[bytes | None, bytes | None]] = 1,
    *,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    timestamp: int = 1_000,
    leader_epoch: int = 0,
    transactional: bool = False,
    control: bool = False,
    value_bytes: int = 10,
) -> bytearray:
    """A batch of `records` key-value pairs; timestamps rise by one from `timestamp`."""
    if isinstance(records, int):
        records = [(b"k%d" % n, b"v" * value_bytes) for n in range(records)]
    payload = b"".join(
        encode_record(delta, delta, key, value) for delta, (key, value) in enumerate(records)
    )
    attributes = TRANSACTIONAL_FLAG * transactional | CONTROL_FLAG * control
    last_delta = len(records) - 1
    content = bytearray(HEADER_BYTES) + payload
    fields = (attributes, last_delta, timestamp, timestamp + last_delta)
    producer = (producer_id, producer_epoch, sequence, len(records))
    length = len(content) - 12
    HEADER.pack_into(content, 0, base_offset, length, leader_epoch, 2, 0, *fields, *producer)
    crc = crc32c(memoryview(content)[21:])
    HEADER.pack_into(content, 0, base_offset, length, leader_epoch, 2, crc, *fields, *producer)
    return content


def marker(
    kind: int,
    producer_id: int,
    producer_epoch: int,
    *,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    timestamp: int = 1_000,
) -> bytearray:
    """The control batch that ends a transaction."""
    return batch(
        [(pack(">hh", 0, kind), pack(">hi", 0, coordinator_epoch))],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=timestamp,
        transactional=True,
        control=True,
    )
