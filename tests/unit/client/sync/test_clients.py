from __future__ import annotations

import inspect
import threading

import pytest

from kaa import client
from kaa.client.admin.admin import NewTopic
from kaa.client.errors import ClosedError, KafkaError
from kaa.client.group.membership import RebalanceListener
from kaa.client.group.offsets import OffsetAndMetadata
from kaa.client.sync import Admin, Consumer, Producer
from kaa.model.topics import TopicPartition


def reading(bootstrap: str, group: str) -> dict[str, str]:
    """Settings of a member that reads from the start and commits when it is asked to."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }


def test_script(bootstrap: str, topic_name: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    partition = TopicPartition(topic_name, 0)
    with Admin(settings) as admin:
        assert admin.create_topics([NewTopic(topic_name, 1, 1)]) == {topic_name: None}
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
        assert consumer.high_watermark(partition) == 20


def test_errors_reach_the_caller(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": "300"}
    consumer = Consumer(settings)
    with pytest.raises(ClosedError, match="inside 'with'"):
        consumer.poll()
    with consumer, pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.partitions_for("absent")


def test_group_with_a_listener_that_commits(bootstrap: str, topic_name: str) -> None:
    """A listener is called by the thread that polls, so that it may use the consumer."""
    settings = reading(bootstrap, topic_name)
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
        assert list(consumer.paused) == [partition]
        assert consumer.poll(timeout_ms=50) == {}
        consumer.resume([partition])
        assert list(consumer.paused) == []
    assert threads == {threading.get_ident()}
    with Consumer(settings) as consumer:
        assert consumer.committed([partition])[partition].offset == 2


def test_commit_without_waiting(bootstrap: str, topic_name: str) -> None:
    settings = reading(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 0)
    with Producer(settings_of(settings)) as writer:
        for number in range(3):
            writer.send(topic_name, b"%d" % number, partition=0).result()
    with Consumer(settings) as reader:
        reader.subscribe([topic_name])
        assert len(reader.poll(timeout_ms=20_000, max_records=2)[partition]) == 2
        first = reader.commit_async()
        assert first.result(20) is None
        assert reader.committed()[partition].offset == 2
        reader.commit_async({partition: OffsetAndMetadata(1, "a note")}).result(20)
        assert reader.committed()[partition] == OffsetAndMetadata(1, "a note")
        # One whose outcome nobody looks at does not matter.
        reader.commit_async({TopicPartition(f"{topic_name}-absent", 0): 1})
        failed = reader.commit_async({TopicPartition(f"{topic_name}-absent", 0): 1})
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            failed.result(20)


def settings_of(given: dict[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": given["bootstrap.servers"]}


def test_transactions_as_blocks(bootstrap: str, topic_name: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic_name}
    with Producer(settings) as writer:
        writer.init_transactions()
        with writer.transaction():
            writer.send(topic_name, b"kept")
        with pytest.raises(ZeroDivisionError):
            give_up(writer, topic_name)
    reading = {**settings_of(settings), "isolation.level": "read_committed"}
    with Consumer({**reading, "auto.offset.reset": "earliest"}) as reader:
        reader.assign([TopicPartition(topic_name, 0)])
        (records,) = reader.poll(timeout_ms=20_000).values()
        assert [record.value for record in records] == [b"kept"]
        assert reader.poll(timeout_ms=200) == {}


def give_up(writer: Producer, topic_name: str) -> None:
    with writer.transaction():
        writer.send(topic_name, b"given up").result()
        raise ZeroDivisionError


def public(kind: type) -> dict[str, inspect.Signature | None]:
    """Methods with their signatures, and properties, of a class and those it derives from."""
    return {
        name: inspect.signature(found) if inspect.isfunction(found) else None
        for name, found in inspect.getmembers(kind)
        if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property))
    }


@pytest.mark.parametrize(
    ("asynchronous", "synchronous", "left_out"),
    [
        (client.Producer, Producer, {"encode", "is_transactional", "send_encoded", "send_nowait"}),
        (client.Consumer, Consumer, {"hand_out", "poll_held"}),
        (client.Admin, Admin, set()),
    ],
)
def test_everything_has_its_twin(asynchronous: type, synchronous: type, left_out: set[str]) -> None:
    """With the same arguments; what is left out has no meaning without a loop."""
    theirs, ours = public(asynchronous), public(synchronous)
    assert theirs.keys() - ours.keys() == left_out
    for name in theirs.keys() - left_out:
        their, our = theirs[name], ours[name]
        assert (their is None) == (our is None), name
        if their is not None and our is not None:
            assert list(their.parameters) == list(our.parameters), name


def test_a_loop_commits_what_it_handed_out(bootstrap: str, topic_name: str) -> None:
    settings = reading(bootstrap, topic_name) | {"enable.auto.commit": "true"}
    partition = TopicPartition(topic_name, 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic_name, b"%d" % number)
    for stop in (3, 7, 10):
        with Consumer(settings) as consumer:
            consumer.subscribe([topic_name])
            for record in consumer:
                assert consumer.position(partition) == record.offset + 1
                if record.offset + 1 == stop:
                    break
        with Consumer(settings) as consumer:
            assert consumer.committed([partition])[partition].offset == stop
