from __future__ import annotations

import pytest

from kaa.client.sync import Consumer, Producer
from kaa.model.topics import TopicPartition


def test_records_are_sent_although_nobody_waits_for_them(bootstrap: str, topic_name: str) -> None:
    """More than memory and the queue hold at once, and in order."""
    count = 15_000
    settings = {"bootstrap.servers": bootstrap, "buffer.memory": "200000"}
    value = bytearray(50)
    with Producer(settings) as producer:
        for number in range(count):
            value[:8] = number.to_bytes(8)
            producer.send(topic_name, value, partition=0)
    partition = TopicPartition(topic_name, 0)
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        found: list[int] = []
        while len(found) < count:
            records = consumer.poll(10_000)[partition]
            found += [int.from_bytes((record.value or b"")[:8]) for record in records]
    assert found == list(range(count))


def test_a_send_that_cannot_be_made_tells_why(bootstrap: str, topic_name: str) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        refused = producer.send(topic_name, b"x", partition=999)
        accepted = producer.send(topic_name, b"y")
        with pytest.raises(Exception, match="999"):
            refused.result(30)
        assert accepted.result(30).offset == 0
