"""Metadata records as bytes: the value of a record in the metadata log (KIP-631).

The frame is that of `kaa.wire.record_frames`; here stands which records there are.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kaa.wire import record_frames
from kaa.wire.record_frames import encode_record

if TYPE_CHECKING:
    from kaa.wire.schema import MetadataRecord

__all__ = ["decode_record", "encode_record", "record_classes"]


def decode_record(value: bytes | bytearray | memoryview) -> tuple[MetadataRecord, int]:
    """The change and the version it was written in; raises WireError on anything else."""
    return record_frames.decode_record(value, record_classes())


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
