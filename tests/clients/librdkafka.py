"""librdkafka, as the package confluent-kafka brings it, in the few calls that tests need."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.samples import Sample
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
)


class Delivery:
    """What became of one record."""

    offset: int | None = None
    error: Any = None


def send(producer: Any, topic: str, sample: Sample, partition: int = 0) -> Delivery:
    """Hands a record to a producer; the delivery is known after `flush` or `poll`."""
    delivery = Delivery()

    def delivered(error: Any, message: Any) -> None:
        delivery.error = error
        delivery.offset = None if error else message.offset()

    producer.produce(
        topic,
        value=sample.value,
        key=sample.key,
        partition=partition,
        timestamp=sample.timestamp_ms,
        headers=list(sample.headers),
        on_delivery=delivered,
    )
    return delivery


def produce(
    bootstrap: str, topic: str, samples: Iterable[Sample], **settings: Any
) -> list[Delivery]:
    """Sends records and waits for them; settings are librdkafka's, with _ for each dot."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **dotted(settings)})
    deliveries = [send(producer, topic, sample) for sample in samples]
    assert producer.flush(PATIENCE_SECONDS) == 0
    return deliveries


@contextmanager
def consumer(bootstrap: str, **settings: Any) -> Iterator[Any]:
    """A consumer that assigns its partitions itself."""
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not used",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **dotted(settings),
        }
    )
    try:
        yield made
    finally:
        made.close()


def consume(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    offset: int = OFFSET_BEGINNING,
    **settings: Any,
) -> list[Any]:
    """The next messages of a partition, from an offset on."""
    with consumer(bootstrap, **settings) as reader:
        if offset == OFFSET_BEGINNING:
            assign_from_the_start(reader, [(topic, partition)])
        else:
            reader.assign([TopicPartition(topic, partition, offset)])
        return take(reader, count)


def assign_from_the_start(reader: Any, partitions: Iterable[tuple[str, int]]) -> None:
    """Reads from where the logs start. OFFSET_BEGINNING says the same, but librdkafka takes half a
    second to find out what it means.
    """
    assigned = []
    for name in partitions:
        low, _ = watermarks(reader, TopicPartition(*name))
        assigned.append(TopicPartition(*name, low))
    reader.assign(assigned)


def watermarks(reader: Any, partition: Any) -> tuple[int, int]:
    """Where a log starts and ends. A node that has just started may not lead it yet."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            low, high = reader.get_watermark_offsets(partition, timeout=PATIENCE_SECONDS)
        except KafkaException as error:
            if time.monotonic() > deadline or error.args[0].code() not in _NOT_YET:
                raise
            threading.Event().wait(0.05)
        else:
            return low, high


def take(reader: Any, count: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(messages) < count and time.monotonic() < deadline:
        for message in reader.consume(count - len(messages), 0.2):
            if message.error():
                raise KafkaException(message.error())
            messages.append(message)
    assert len(messages) == count, f"{len(messages)} of {count} messages came"
    return messages


def as_sample(message: Any) -> Sample:
    kind, timestamp_ms = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return Sample(message.key(), message.value(), timestamp_ms, tuple(message.headers() or ()))


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, *, replicas: int = 1, **configs: Any
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replicas, config=dotted(configs))
    for done in admin.create_topics([new]).values():
        done.result(PATIENCE_SECONDS)


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}
