from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kaa.records.partitioner import partition_of_key
from kaa.testing import Broker, RefusedError
from kaa.testing.topic import EARLIEST


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_records_come_back_as_they_were_seeded(broker: Broker) -> None:
    topic = broker.topic()
    topic.seed(
        [
            "text",
            b"\xff",
            None,
            ("key", "value"),
            {"key": b"k", "headers": {"h": "1", "none": None}, "timestamp_ms": 1000},
            {"value": "v", "headers": [("h", b"1"), ("h", b"2")]},
        ]
    )
    found = topic.records()
    assert [record.value for record in found] == [b"text", b"\xff", None, b"value", None, b"v"]
    assert [record.key for record in found] == [None, None, None, b"key", b"k", None]
    assert [record.offset for record in found] == list(range(6))
    assert found[4].timestamp_ms == 1000
    assert found[4].headers == (("h", b"1"), ("none", None))
    assert found[5].headers == (("h", b"1"), ("h", b"2"))


def test_one_record_and_one_name_may_stand_alone(broker: Broker) -> None:
    """And are not taken apart into letters."""
    topic = broker.topic()
    topic.seed("text")
    topic.expect("text")
    topic.seed({"key": "k", "value": "v"})
    topic.expect(["text", ("k", "v")])
    broker.delete_topics(topic.name)
    assert topic.name not in broker.topic_names()


def test_partitions_are_chosen_as_kafka_chooses_them(broker: Broker) -> None:
    topic = broker.topic(partitions=3)
    topic.seed([("a", "1"), ("b", "2"), {"value": "3", "partition": 1}])
    by_value = {record.value: record.partition for record in topic.records()}
    assert by_value == {
        b"1": partition_of_key(b"a", 3),
        b"2": partition_of_key(b"b", 3),
        b"3": 1,
    }
    without_keys = broker.topic(partitions=2)
    without_keys.seed(["a", "b", "c"])
    assert [record.partition for record in without_keys.records()] == [0, 0, 1]


def test_records_of_a_producer_with_compression(broker: Broker) -> None:
    topic = broker.topic()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd", "linger.ms": 20}
    )
    for number in range(500):
        producer.produce(topic.name, str(number))
    assert producer.flush(20) == 0
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(500)]
    assert [record.offset for record in topic.tail(3)] == [497, 498, 499]
    assert topic.offsets() == {0: 500}
    assert topic.offsets(EARLIEST) == {0: 0}


def test_expect_shows_the_difference(broker: Broker) -> None:
    topic = broker.topic()
    topic.seed(["a", ("k", "b"), "c"])
    assert topic.expect(["a", ("k", "b"), {"value": "c", "partition": 0}])[0].value == b"a"
    with pytest.raises(AssertionError) as failure:
        topic.expect(["a", "c", "d"], timeout=0.05)
    assert str(failure.value).splitlines() == [
        f"topic {topic.name}: 3 records expected, 3 found",
        "  'a'  [partition 0, offset 0]",
        "+ ('k', 'b')  [partition 0, offset 1]",
        "  'c'  [partition 0, offset 2]",
        "- 'd'",
    ]


def test_expect_waits_for_what_is_to_come(broker: Broker) -> None:
    topic = broker.topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 200})
    producer.produce(topic.name, "late")
    topic.expect(["late"])
    assert producer.flush(20) == 0


def test_expect_in_any_order_of_several_partitions(broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    topic.seed([{"value": "a", "partition": 1}, {"value": "b", "partition": 0}])
    topic.expect(["a", "b"])
    with pytest.raises(AssertionError, match="2 records expected, 2 found"):
        topic.expect(["a", "b"], timeout=0.05, in_order=True)


def test_what_is_no_record_is_refused(broker: Broker) -> None:
    topic = broker.topic()
    for wrong in (1, ("a", "b", "c"), {"val": "x"}, {"value": 1}):
        with pytest.raises(TypeError):
            topic.seed([wrong])
    assert topic.records() == []


def test_a_topic_that_does_not_exist(broker: Broker) -> None:
    for name, error in (("nobody-made-it", "UNKNOWN_TOPIC"), ("no topic!", "INVALID_TOPIC")):
        with pytest.raises(RefusedError, match=error):
            broker.existing_topic(name).records()
    with pytest.raises(AssertionError, match="1 record expected in any order, 0 found"):
        broker.existing_topic("nobody-made-it").expect(["a"], timeout=0.05)


def test_what_was_read_can_be_written_again(broker: Broker) -> None:
    first, second = broker.topic("first"), broker.topic("second")
    first.seed([{"key": "k", "value": "v", "headers": {"h": "x"}, "timestamp_ms": 1000}])
    second.seed(first.records())
    (copy,) = second.records()
    assert copy == first.records()[0]._replace(topic=second.name)
