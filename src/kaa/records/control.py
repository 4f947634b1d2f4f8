"""Control batches: what brokers write between the records of clients.

A control batch has the control bit set and holds one record for each thing it says (in practice
one). The key says what it is, the value has a layout of its own:

| bytes | type | field of the key |
|---|---|---|
| 2 | int16 | version 0; higher versions are read as 0, negative ones are corrupt |
| 2 | int16 | `ControlRecordType` |

| bytes | type | field of the value of an abort or commit marker |
|---|---|---|
| 2 | int16 | version 0; higher versions are read as 0, negative ones are corrupt |
| 4 | int32 | epoch of the transaction coordinator that wrote it |

The values of the other types are the wire messages of the same names. A marker belongs to a
transaction, so its batch is transactional, has the producer's id and epoch, and no sequence.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kaa.records.batch import NO_PARTITION_LEADER_EPOCH
from kaa.records.build import BatchBuilder
from kaa.records.errors import InvalidRecordError
from kaa.records.record import iter_records

if TYPE_CHECKING:
    from kaa.records.batch import Buffer, RecordBatch

_KEY = Struct(">hh")
_END_TRANSACTION_VALUE = Struct(">hi")
_VERSION = 0


class ControlRecordType(IntEnum):
    """What a control record says. Types of newer brokers read as unknown and are passed over."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of one producer's transaction on one partition."""

    control_type: ControlRecordType
    coordinator_epoch: int


def encode_control_key(control_type: ControlRecordType) -> bytes:
    if control_type is ControlRecordType.UNKNOWN:
        raise ValueError("an unknown control record type cannot be written")
    return _KEY.pack(_VERSION, control_type)


def decode_control_key(key: Buffer | None) -> ControlRecordType:
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError("the key of a control record has fewer than 4 bytes")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"control record key of version {version}")
    try:
        return ControlRecordType(type_id)
    except ValueError:
        return ControlRecordType.UNKNOWN


def encode_end_transaction_value(coordinator_epoch: int) -> bytes:
    return _END_TRANSACTION_VALUE.pack(_VERSION, coordinator_epoch)


def decode_end_transaction_value(value: Buffer | None) -> int:
    """The coordinator epoch of a marker."""
    if value is None or len(value) < _END_TRANSACTION_VALUE.size:
        raise InvalidRecordError("the value of a transaction marker has fewer than 6 bytes")
    version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"transaction marker of version {version}")
    return int(coordinator_epoch)


def read_end_transaction_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """The marker in a control batch; None for an empty batch and for any other control type."""
    for record in iter_records(batch):
        control_type = decode_control_key(record.key)
        if control_type not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
            return None
        return EndTransactionMarker(control_type, decode_end_transaction_value(record.value))
    return None


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    if marker.control_type not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
        raise ValueError(f"{marker.control_type.name} does not end a transaction")
    builder = BatchBuilder(
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    builder.append(
        timestamp,
        encode_control_key(marker.control_type),
        encode_end_transaction_value(marker.coordinator_epoch),
    )
    return builder.build()


def build_control_batch(
    control_type: ControlRecordType,
    value: Buffer,
    *,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """A batch with one control record of the metadata quorum; `value` is the encoded message."""
    builder = BatchBuilder(
        base_offset=base_offset, partition_leader_epoch=partition_leader_epoch, is_control=True
    )
    builder.append(timestamp, encode_control_key(control_type), value)
    return builder.build()
