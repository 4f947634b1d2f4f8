"""DeleteRecords, key 21: moves the start of partitions forward (KIP-107).

Offset -1 stands for the high watermark. The new start is on disk before the answer; the files
behind it go with the next check of retention. A topic that is only compacted keeps what it has.

A topic that appears twice is answered once, and of a partition that appears twice the last offset
counts, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.log.names import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.wire.messages.k21_delete_records import DeleteRecordsRequest

_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


def handle(
    services: Services, request: DeleteRecordsRequest, _context: RequestContext
) -> DeleteRecordsResponse:
    wanted = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    results: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
    offsets: dict[TopicPartition, int] = {}
    for key, offset in wanted.items():
        position = _position(services, key, offset)
        if isinstance(position, Errors):
            results.setdefault(key.topic, {})[key.partition] = _failed(key.partition, position)
        else:
            offsets[key] = position
    for key, error in services.logs.delete_records(offsets).items():
        results.setdefault(key.topic, {})[key.partition] = (
            _deleted(services, key) if error is None else _failed(key.partition, error.error)
        )
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name, partitions=[result for _, result in sorted(partitions.items())]
            )
            for name, partitions in results.items()
        ]
    )


def _position(services: Services, key: TopicPartition, offset: int) -> int | Errors:
    """The offset to start at, or why it cannot be."""
    partition = services.replicas.find(key.topic, key.partition)
    if partition is not Errors.UNKNOWN_TOPIC_OR_PARTITION and services.replicas.is_internal(
        key.topic
    ):
        return Errors.INVALID_TOPIC_EXCEPTION
    if isinstance(partition, Errors):
        return partition
    if not partition.is_leader:
        return Errors.NOT_LEADER_OR_FOLLOWER
    return _checked(partition, offset)


def _checked(partition: Partition, offset: int) -> int | Errors:
    log = partition.leader_log()
    if log.config.compact and not log.config.delete:
        return Errors.POLICY_VIOLATION
    if offset == _HIGH_WATERMARK:
        return log.high_watermark
    return offset if offset >= 0 else Errors.OFFSET_OUT_OF_RANGE


def _deleted(services: Services, key: TopicPartition) -> DeleteRecordsPartitionResult:
    # The low watermark is the least log start offset of all replicas; this node has the only one.
    log = services.logs.logs[key]
    return DeleteRecordsPartitionResult(
        partition_index=key.partition, low_watermark=log.log_start_offset
    )


def _failed(number: int, error: Errors) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=number, low_watermark=_NO_LOW_WATERMARK, error_code=error
    )
