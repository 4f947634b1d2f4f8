"""kafka-python: what is written is read, also from a broker of another age."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

with warnings.catch_warnings():
    # It reads its schemas by a function that newer Pythons advise against.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

if TYPE_CHECKING:
    from kaa.testing import Broker


def read_all(bootstrap_servers: str, topic: str) -> list[bytes]:
    """The code under test: everything in the first partition of a topic."""
    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap_servers)) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        values: list[bytes] = []
        while consumer.position(partition) < end:
            for messages in consumer.poll(timeout_ms=1000).values():
                values += [message.value for message in messages]
        return values


def test_a_consumer_reads_what_was_seeded(kafka: Broker) -> None:
    topic = kafka.topic("readings")
    topic.seed(str(number) for number in range(100))
    assert read_all(kafka.bootstrap_servers, topic.name) == [b"%d" % n for n in range(100)]


@pytest.mark.kafka(api_versions={"Fetch": 11, "Produce": 8, "Metadata": 8})
def test_an_older_broker_is_good_enough(kafka: Broker) -> None:
    topic = kafka.topic("readings")
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)) as producer:
        producer.send(topic.name, b"21.5", key=b"kitchen").get(timeout=10)
    topic.expect([("kitchen", "21.5")])
    assert read_all(kafka.bootstrap_servers, topic.name) == [b"21.5"]
    assert any(request.startswith("Produce v8") for request in kafka.requests)
