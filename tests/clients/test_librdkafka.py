"""librdkafka against a running node."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.clients.librdkafka import (
    as_sample,
    consume,
    consumer,
    create_topic,
    produce,
    send,
    take,
    watermarks,
)
from tests.clients.samples import CODECS, FIRST_TIMESTAMP_MS, SAMPLES, Sample
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["1", "all"])
def test_records_come_back_as_they_were(bootstrap: str, topic: str, codec: str, acks: str) -> None:
    deliveries = produce(bootstrap, topic, SAMPLES, compression_codec=codec, acks=acks)
    assert [(found.error, found.offset) for found in deliveries] == [
        (None, number) for number in range(len(SAMPLES))
    ]
    messages = consume(bootstrap, topic, len(SAMPLES), check_crcs=True)
    assert [as_sample(message) for message in messages] == SAMPLES
    assert [message.offset() for message in messages] == list(range(len(SAMPLES)))


def test_idempotent_producer(bootstrap: str, topic: str) -> None:
    samples = [Sample(None, b"%d" % number, FIRST_TIMESTAMP_MS) for number in range(500)]
    deliveries = produce(
        bootstrap, topic, samples, enable_idempotence=True, batch_num_messages=10, linger_ms=0
    )
    assert [found.offset for found in deliveries] == list(range(500))
    values = [message.value() for message in consume(bootstrap, topic, 500)]
    assert values == [sample.value for sample in samples]


def test_without_acknowledgement(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, SAMPLES, acks="0")
    assert [as_sample(found) for found in consume(bootstrap, topic, len(SAMPLES))] == SAMPLES


@pytest.mark.parametrize("codec", CODECS)
def test_large_messages(bootstrap: str, topic: str, codec: str) -> None:
    create_topic(bootstrap, topic, max_message_bytes=2_100_000)
    large = Sample(b"k", bytes(range(250)) * 8_000, FIRST_TIMESTAMP_MS)
    (delivery,) = produce(
        bootstrap, topic, [large], compression_codec=codec, message_max_bytes=4_000_000
    )
    assert (delivery.error, delivery.offset) == (None, 0)
    # A reader who asked for less than a batch gets the whole batch all the same.
    (message,) = consume(bootstrap, topic, 1, max_partition_fetch_bytes=1_000)
    assert as_sample(message) == large


def test_a_megabyte_fits_by_default_and_more_does_not(bootstrap: str, topic: str) -> None:
    fits = Sample(None, bytes(1_000_000), FIRST_TIMESTAMP_MS)
    too_large = Sample(None, bytes(1_048_577), FIRST_TIMESTAMP_MS)
    create_topic(bootstrap, topic)
    deliveries = produce(
        bootstrap, topic, [fits, too_large, fits], message_max_bytes=4_000_000, linger_ms=0
    )
    assert [found.offset for found in deliveries] == [0, None, 1]
    assert deliveries[1].error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_reading_from_the_middle(bootstrap: str, topic: str) -> None:
    samples = [Sample(None, b"%d" % number, FIRST_TIMESTAMP_MS) for number in range(300)]
    produce(bootstrap, topic, samples, batch_num_messages=70)
    for offset in (1, 69, 70, 150, 299):
        messages = consume(bootstrap, topic, 300 - offset, offset=offset)
        assert messages[0].offset() == offset
        assert [found.value() for found in messages] == [b"%d" % n for n in range(offset, 300)]


def test_reading_from_the_end_waits_for_more(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, SAMPLES[:2])
    with consumer(bootstrap) as reader:
        reader.assign([TopicPartition(topic, 0, OFFSET_END)])
        assert reader.poll(0.5) is None
        produce(bootstrap, topic, SAMPLES[2:3])
        (message,) = take(reader, 1)
    assert (message.offset(), as_sample(message)) == (2, SAMPLES[2])


def test_an_offset_that_does_not_exist(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, SAMPLES[:2])
    with pytest.raises(KafkaException) as raised:
        consume(bootstrap, topic, 1, offset=1_000)
    assert "OFFSET_OUT_OF_RANGE" in str(raised.value) or "out of range" in str(raised.value)


def test_readers_of_committed_data_see_plain_data(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, SAMPLES)
    messages = consume(bootstrap, topic, len(SAMPLES), isolation_level="read_committed")
    assert [as_sample(message) for message in messages] == SAMPLES


def test_offsets_by_time_and_by_position(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, SAMPLES, batch_num_messages=2)
    with consumer(bootstrap) as reader:
        for number in range(len(SAMPLES)):
            for timestamp_ms in (FIRST_TIMESTAMP_MS + 1_000 * number - 500, SAMPLES[number][2]):
                asked = TopicPartition(topic, 0, timestamp_ms)
                (found,) = reader.offsets_for_times([asked], timeout=PATIENCE_SECONDS)
                assert (found.error, found.offset) == (None, number)
        (late,) = reader.offsets_for_times(
            [TopicPartition(topic, 0, 2**42)], timeout=PATIENCE_SECONDS
        )
        assert late.offset == OFFSET_END
        partition = TopicPartition(topic, 0)
        assert watermarks(reader, partition) == (0, len(SAMPLES))


def test_time_of_the_broker(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    produce(bootstrap, topic, SAMPLES, compression_codec="lz4")
    messages = consume(bootstrap, topic, len(SAMPLES))
    for message in messages:
        kind, timestamp_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert timestamp_ms > FIRST_TIMESTAMP_MS


def test_several_partitions(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, partitions=6)
    samples = [Sample(b"%d" % number, b"v", FIRST_TIMESTAMP_MS) for number in range(600)]
    producer = Producer({"bootstrap.servers": bootstrap})
    deliveries = [
        send(producer, topic, sample, number % 6) for number, sample in enumerate(samples)
    ]
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert [found.offset for found in deliveries] == [number // 6 for number in range(600)]
    with consumer(bootstrap) as reader:
        reader.assign([TopicPartition(topic, number, 0) for number in range(6)])
        messages = take(reader, 600)
    assert {found.key() for found in messages} == {sample.key for sample in samples}


def test_topics_are_created_listed_described_and_deleted(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, topic, partitions=3, retention_ms=86_400_000)
    with pytest.raises(KafkaException) as raised:
        create_topic(bootstrap, topic)
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert len(admin.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions) == 3
    produce(bootstrap, topic, SAMPLES)
    for done in admin.delete_topics([topic]).values():
        done.result(PATIENCE_SECONDS)
    assert wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE_SECONDS).topics, 60)
    # The same name is another topic, which starts anew.
    create_topic(bootstrap, topic)
    (delivery,) = produce(bootstrap, topic, SAMPLES[:1])
    assert delivery.offset == 0
