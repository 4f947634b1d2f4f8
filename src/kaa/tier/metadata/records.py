"""Remote log metadata as records of the topic `__remote_log_metadata`.

A value is framed as `kaa.wire.record_frames` says; the types are 0 for a segment, 1 for its update
and 2 for the deletion of a partition. Kafka's brokers write the same bytes, so they can share the
topic.

All records of a user partition lie in one metadata partition, in the order they were written. Which
one follows from the topic id and the partition alone; a topic that is created again may go
elsewhere. The hash is Java's `Objects.hash` over both halves of the id and the partition, then
murmur2 over its four bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kaa.records.partitioner import murmur2
from kaa.tier.metadata.model import (
    EpochStart,
    PartitionDeleteState,
    PartitionDeletion,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)
from kaa.wire.messages.remote_log import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from kaa.wire.primitives import WireError
from kaa.wire.record_frames import decode_record, encode_record

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord

RemoteLogEvent: TypeAlias = SegmentMetadata | SegmentUpdate | PartitionDeletion

_VERSION: Final = 0
_CLASSES: Final[dict[int, type[MetadataRecord]]] = {
    record.record_type: record
    for record in (
        RemoteLogSegmentMetadataRecord,
        RemoteLogSegmentMetadataUpdateRecord,
        RemotePartitionDeleteMetadataRecord,
    )
}
_UINT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def metadata_partition(partition: TopicIdPartition, partitions: int) -> int:
    """Where the records of a user partition lie among `partitions` of the metadata topic."""
    data = bytes(partition.topic_id)
    hashed = 1
    # As two's complement, the upper half xor the lower one is the same for either sign.
    for half in (data[8:], data[:8]):
        value = int.from_bytes(half, "big")
        hashed = (31 * hashed + ((value ^ (value >> 32)) & _UINT32)) & _UINT32
    hashed = (31 * hashed + partition.partition) & _UINT32
    return (murmur2(hashed.to_bytes(4, "big")) & _POSITIVE) % partitions


def encode_event(event: RemoteLogEvent) -> bytes:
    """The value of the record that carries it."""
    return encode_record(_record_of(event), _VERSION)


def decode_event(value: bytes | bytearray | memoryview) -> RemoteLogEvent:
    """What a record says; raises WireError on anything that is not wholly understood."""
    record, _ = decode_record(value, _CLASSES)
    try:
        return _event_of(record)
    except ValueError as error:
        raise WireError(f"a record of remote log metadata is out of range: {error}") from None


def _record_of(event: RemoteLogEvent) -> MetadataRecord:
    if isinstance(event, SegmentMetadata):
        return RemoteLogSegmentMetadataRecord(
            remote_log_segment_id=_segment_entry(event.partition, event.segment_id),
            start_offset=event.start_offset,
            end_offset=event.end_offset,
            broker_id=event.broker_id,
            max_timestamp_ms=event.max_timestamp_ms,
            event_timestamp_ms=event.event_timestamp_ms,
            segment_leader_epochs=[
                SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
                for epoch, offset in event.leader_epochs
            ],
            segment_size_in_bytes=event.size_bytes,
            custom_metadata=event.custom_metadata,
            remote_log_segment_state=event.state,
            txn_index_empty=event.is_txn_index_empty,
        )
    if isinstance(event, SegmentUpdate):
        return RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=_segment_entry(event.partition, event.segment_id),
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            custom_metadata=event.custom_metadata,
            remote_log_segment_state=event.state,
        )
    return RemotePartitionDeleteMetadataRecord(
        topic_id_partition=_partition_entry(event.partition),
        broker_id=event.broker_id,
        event_timestamp_ms=event.event_timestamp_ms,
        remote_partition_delete_state=event.state,
    )


def _event_of(record: MetadataRecord) -> RemoteLogEvent:
    if isinstance(record, RemoteLogSegmentMetadataRecord):
        epochs = tuple(
            EpochStart(entry.leader_epoch, entry.offset) for entry in record.segment_leader_epochs
        )
        if not epochs:
            raise ValueError("a segment without leader epochs")
        return SegmentMetadata(
            _partition_of(record.remote_log_segment_id.topic_id_partition),
            record.remote_log_segment_id.id,
            record.start_offset,
            record.end_offset,
            record.max_timestamp_ms,
            record.broker_id,
            record.event_timestamp_ms,
            record.segment_size_in_bytes,
            SegmentState(record.remote_log_segment_state),
            tuple(sorted(epochs)),
            record.custom_metadata,
            record.txn_index_empty,
        )
    if isinstance(record, RemoteLogSegmentMetadataUpdateRecord):
        return SegmentUpdate(
            _partition_of(record.remote_log_segment_id.topic_id_partition),
            record.remote_log_segment_id.id,
            record.event_timestamp_ms,
            record.broker_id,
            SegmentState(record.remote_log_segment_state),
            record.custom_metadata,
        )
    assert isinstance(record, RemotePartitionDeleteMetadataRecord)
    return PartitionDeletion(
        _partition_of(record.topic_id_partition),
        PartitionDeleteState(record.remote_partition_delete_state),
        record.event_timestamp_ms,
        record.broker_id,
    )


def _partition_entry(partition: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(
        name=partition.topic, id=partition.topic_id, partition=partition.partition
    )


def _segment_entry(partition: TopicIdPartition, segment_id: Uuid) -> RemoteLogSegmentIdEntry:
    return RemoteLogSegmentIdEntry(topic_id_partition=_partition_entry(partition), id=segment_id)


def _partition_of(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.id, entry.name, entry.partition)
