"""Produce requests for some batches of one broker, and what the answer says of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.model.topics import TopicPartition
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.connection import Connection
    from kaa.client.metadata import Metadata
    from kaa.client.producer.accumulator import ProducerBatch
    from kaa.client.producer.transaction_machine import TransactionMachine
    from kaa.wire.messages.k00_produce import ProduceResponse

# The first version of Produce that names topics by their ids alone.
_TOPIC_ID_VERSION: Final = 13
# The first version that adds partitions to the transaction of the producer.
_IMPLICIT_VERSION: Final = 12


def produce_version(
    connection: Connection,
    metadata: Metadata,
    batches: Iterable[ProducerBatch],
    transaction: TransactionMachine | None,
) -> int:
    """Topics without ids, which old clusters have, need the older versions."""
    if transaction is not None and not transaction.is_implicit:
        # Newer versions would make brokers add partitions to the transaction themselves.
        return connection.version_of(ApiKey.PRODUCE, _IMPLICIT_VERSION - 1)
    for batch in batches:
        topic = metadata.topics.get(batch.partition.topic)
        if topic is None or topic.topic_id == UUID_ZERO:
            return connection.version_of(ApiKey.PRODUCE, _TOPIC_ID_VERSION - 1)
    return connection.version_of(ApiKey.PRODUCE)


def produce_request(
    metadata: Metadata,
    batches: Iterable[ProducerBatch],
    transaction: TransactionMachine | None,
    *,
    acks: int,
    timeout_ms: int,
) -> ProduceRequest:
    """One request with a batch per partition, under both names and ids of topics."""
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, partition = batch.partition
        data = topics.get(name)
        if data is None:
            known = metadata.topics.get(name)
            topic_id = UUID_ZERO if known is None else known.topic_id
            data = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
        data.partition_data.append(PartitionProduceData(index=partition, records=batch.data))
    return ProduceRequest(
        transactional_id=None if transaction is None else transaction.transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
    )


def answers_of(response: ProduceResponse, metadata: Metadata) -> dict[TopicPartition, Any]:
    """The answer for each partition; newer brokers name topics by their ids alone."""
    return {
        TopicPartition(
            topic.name or metadata.topic_names.get(topic.topic_id, ""), answer.index
        ): answer
        for topic in response.responses
        for answer in topic.partition_responses
    }
