from __future__ import annotations

import threading

import pytest

from kaa.client.admin import NewTopic
from kaa.client.errors import ClosedError, KafkaError
from kaa.client.group.membership import RebalanceListener
from kaa.client.metadata import TopicPartition
from kaa.client.sync import Admin, Consumer, Producer


def test_script(bootstrap: str, topic_name: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    partition = TopicPartition(topic_name, 0)
    with Admin(settings) as admin:
        assert admin.run(lambda it: it.create_topics([NewTopic(topic_name, 1, 1)])) == {
            topic_name: None
        }
    with Producer(settings) as producer:
        assert len(producer.partitions_for(topic_name).partitions) == 1
        futures = [producer.send(topic_name, b"%d" % n, timestamp_ms=n) for n in range(20)]
        producer.flush()
        assert [future.result().offset for future in futures] == list(range(20))
    with Consumer(settings) as consumer:
        assert consumer.partitions_for(topic_name) == [partition]
        consumer.assign([partition])
        consumer.seek_to_end()
        assert consumer.position(partition) == 20
        consumer.seek_to_beginning()
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 20}
        found = consumer.offsets_for_times({partition: 7})[partition]
        assert found is not None
        assert found.offset == 7
        assert consumer.fetch_batches(partition, 0, 1 << 20).high_watermark == 20
        consumer.seek(partition, 5)
        assert next(iter(consumer)).value == b"5"
        consumer.seek(partition, 18)
        assert [r.value for r in consumer.poll(5000)[partition]] == [b"18", b"19"]


def test_errors_reach_the_caller(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": "300"}
    consumer = Consumer(settings)
    with pytest.raises(ClosedError, match="inside 'with'"):
        consumer.poll()
    with consumer, pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.partitions_for("absent")


def test_group_with_a_listener_that_commits(bootstrap: str, topic_name: str) -> None:
    """A listener is called by the thread that polls, so that it may use the consumer."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic_name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    partition = TopicPartition(topic_name, 0)
    threads: set[int] = set()

    class Listener(RebalanceListener):
        def __init__(self, consumer: Consumer) -> None:
            self.consumer = consumer

        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            threads.add(threading.get_ident())
            assert self.consumer.committed(partitions) == {}

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            threads.add(threading.get_ident())
            self.consumer.commit()

    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(5):
            producer.send(topic_name, b"%d" % number, partition=0).result()
    with Consumer(settings) as consumer:
        consumer.subscribe([topic_name], listener=Listener(consumer))
        records = consumer.poll(timeout_ms=20_000, max_records=2)
        assert [record.value for record in records[partition]] == [b"0", b"1"]
        assert consumer.assignment == (partition,)
        assert consumer.group_metadata().group_id == topic_name
        consumer.pause([partition])
        assert consumer.poll(timeout_ms=50) == {}
        consumer.resume([partition])
    assert threads == {threading.get_ident()}
    with Consumer(settings) as consumer:
        assert consumer.committed([partition])[partition].offset == 2
