"""kafka-python in the few calls that tests need."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tests.clients.samples import Sample
from tests.support.pace import PATIENCE_SECONDS

with warnings.catch_warnings():
    # It reads its schemas by a function that newer Pythons advise against.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

__all__ = [
    "KafkaAdminClient",
    "KafkaProducer",
    "MessageSizeTooLargeError",
    "NewTopic",
    "TopicAlreadyExistsError",
    "TopicPartition",
    "consume",
    "consumer",
    "produce",
    "take",
]


def produce(bootstrap: str, topic: str, samples: list[Sample], **settings: Any) -> list[int]:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)) as producer:
        sent = [
            producer.send(
                topic,
                sample.value,
                key=sample.key,
                headers=list(sample.headers),
                partition=0,
                timestamp_ms=sample.timestamp_ms,
            )
            for sample in samples
        ]
        return [future.get(PATIENCE_SECONDS).offset for future in sent]


def consumer(bootstrap: str, **settings: Any) -> Any:
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        consumer_timeout_ms=PATIENCE_SECONDS * 1000,
        auto_offset_reset="none",
        **settings,
    )


def take(reader: Any, count: int) -> list[Any]:
    messages: Iterator[Any] = iter(reader)
    return [next(messages) for _ in range(count)]


def consume(
    bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any
) -> list[Sample]:
    with closing(consumer(bootstrap, **settings)) as reader:
        partition = TopicPartition(topic, 0)
        reader.assign([partition])
        reader.seek(partition, offset)
        return [
            Sample(found.key, found.value, found.timestamp, tuple(found.headers))
            for found in take(reader, count)
        ]
