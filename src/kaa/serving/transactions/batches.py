"""The batches of a produce request: whether they are many, and of those that are transactional
whose they are and where they go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import PRODUCE_BATCHES_AT_ONCE_MAX, TRANSACTION_PARTITIONS_PER_TURN_MAX
from kaa.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, RecordBatch

if TYPE_CHECKING:
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.serving.services import Services
    from kaa.wire.messages.k00_produce import ProduceRequest, TopicProduceData

_MAGIC_POSITION: Final = 16
_MAGIC: Final = 2
_TRANSACTIONAL_BIT: Final = 0x10
_TOPIC_IDS_VERSION: Final = 13


class TransactionalBatches(NamedTuple):
    """Producers by id and epoch, of which there should be one, and first sequences."""

    producers: set[tuple[int, int]]
    sequences: dict[PartitionName, int]


def has_many_batches(request: ProduceRequest) -> bool:
    """Whether to append them takes longer than one turn of the loop may."""
    count = len(request.topic_data)
    if count > PRODUCE_BATCHES_AT_ONCE_MAX:
        return True
    count = 0
    for topic in request.topic_data:
        count += len(topic.partition_data)
    return count > PRODUCE_BATCHES_AT_ONCE_MAX


def has_transactional(request: ProduceRequest) -> bool:
    """A look at one byte per partition, so that other requests lose no time."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) >= HEADER_BYTES
                and records[_MAGIC_POSITION] == _MAGIC
                and records[ATTRIBUTES_POSITION + 1] & _TRANSACTIONAL_BIT
            ):
                return True
    return False


def transactional_batches(
    services: Services, request: ProduceRequest, version: int
) -> Pieces[TransactionalBatches]:
    found = TransactionalBatches(set(), {})
    count = 0
    for topic in request.topic_data:
        count += 1
        if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
            yield
        name = topic_name(services, topic, version)
        for data in topic.partition_data:
            count += 1
            if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
                yield
            records = data.records
            if (
                records is None
                or len(records) < HEADER_BYTES
                or records[_MAGIC_POSITION] != _MAGIC
                or not records[ATTRIBUTES_POSITION + 1] & _TRANSACTIONAL_BIT
            ):
                continue
            batch = RecordBatch(records, 0)
            found.producers.add((batch.producer_id, batch.producer_epoch))
            if name is not None:
                found.sequences[name, data.index] = batch.base_sequence
    return found


def topic_name(services: Services, topic: TopicProduceData, version: int) -> str | None:
    if version < _TOPIC_IDS_VERSION:
        return topic.name
    image = services.image.topics_by_id.get(topic.topic_id)
    return None if image is None else image.name
