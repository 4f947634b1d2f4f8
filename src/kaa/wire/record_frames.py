"""Records that say their own type: the values of the metadata log and of remote log metadata.

| field | type | meaning |
|---|---|---|
| frame version | uvarint | 1 |
| record type | uvarint | `record_type` of the class |
| version | uvarint | of the message that follows |
| message | | |

The key of such a record is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.wire.primitives import WireError, read_uvarint, write_uvarint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.wire.schema import MetadataRecord

_FRAME_VERSION: Final = 1


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """The value that carries the record."""
    out = bytearray()
    write_uvarint(out, _FRAME_VERSION)
    write_uvarint(out, record.record_type)
    write_uvarint(out, version)
    record.codec(version).encode_into(record, out, [])
    return bytes(out)


def decode_record(
    value: bytes | bytearray | memoryview, classes: Mapping[int, type[MetadataRecord]]
) -> tuple[MetadataRecord, int]:
    """The record, one of `classes` by type, and its version; raises WireError on anything else."""
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
    record_class = classes.get(record_type)
    if record_class is None:
        raise WireError(f"there is no metadata record of type {record_type}")
    record: MetadataRecord = record_class.decode(value[position:], version)
    return record, version
