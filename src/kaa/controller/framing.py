"""Metadata records as bytes: the value of a record in the metadata log (KIP-631).

::

    frame version  uvarint   1
    record type    uvarint   `record_type` of the class
    version        uvarint   of the message that follows
    message

The key of such a record is null.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from kaa.wire.primitives import WireError, read_uvarint, write_uvarint

if TYPE_CHECKING:
    from kaa.wire.schema import MetadataRecord

_FRAME_VERSION: Final = 1


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """The value of the record that carries this change."""
    out = bytearray()
    write_uvarint(out, _FRAME_VERSION)
    write_uvarint(out, record.record_type)
    write_uvarint(out, version)
    record.codec(version).encode_into(record, out, [])
    return bytes(out)


def decode_record(value: bytes | bytearray | memoryview) -> tuple[MetadataRecord, int]:
    """The change and the version it was written in; raises WireError on anything else."""
    try:
        frame_version, record_type, version = value[0], value[1], value[2]
        position = 3
        if (frame_version | record_type | version) & 0x80:
            # No record of today has a number that needs two bytes; a damaged one may.
            frame_version, position = read_uvarint(value, 0)
            record_type, position = read_uvarint(value, position)
            version, position = read_uvarint(value, position)
    except IndexError:
        raise WireError("a metadata record is cut short") from None
    if frame_version != _FRAME_VERSION:
        raise WireError(f"a metadata record has frame version {frame_version}, not 1")
    record_class = record_classes().get(record_type)
    if record_class is None:
        raise WireError(f"there is no metadata record of type {record_type}")
    record: MetadataRecord = record_class.decode(value[position:], version)
    return record, version


@cache
def record_classes() -> dict[int, type[MetadataRecord]]:
    """Every metadata record of Kafka, by its type."""
    from kaa.wire.messages import metadata_cluster, metadata_settings, metadata_topics
    from kaa.wire.schema import MetadataRecord

    found = {}
    for module in (metadata_cluster, metadata_settings, metadata_topics):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, MetadataRecord):
                found[value.record_type] = value
    found.pop(-1)
    return found
