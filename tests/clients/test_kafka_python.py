"""kafka-python against a running node, also as the older versions of Kafka that it can speak."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.clients.kafka_python import (
    KafkaAdminClient,
    KafkaProducer,
    MessageSizeTooLargeError,
    NewTopic,
    TopicAlreadyExistsError,
    TopicPartition,
    consume,
    consumer,
    produce,
    take,
)
from tests.clients.samples import CODECS, SAMPLES, Sample
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS

VERSIONS = ((0, 11), (1, 1), (2, 1), (2, 8), (3, 9), (4, 0), (4, 3))

# This client sends no header without a value, and no record without both key and value.
SENT = [
    sample._replace(headers=tuple(pair for pair in sample.headers if pair[1] is not None))
    for sample in SAMPLES
    if (sample.key, sample.value) != (None, None)
]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were(bootstrap: str, topic: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    offsets = produce(bootstrap, topic, SENT, compression_type=compression)
    assert offsets == list(range(len(SENT)))
    assert consume(bootstrap, topic, len(SENT)) == SENT
    assert consume(bootstrap, topic, 2, offset=len(SENT) - 2) == SENT[-2:]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_old_versions(bootstrap: str, topic: str, version: tuple[int, int]) -> None:
    assert produce(bootstrap, topic, SENT, api_version=version) == list(range(len(SENT)))
    for isolation in ("read_uncommitted", "read_committed"):
        found = consume(bootstrap, topic, len(SENT), api_version=version, isolation_level=isolation)
        assert found == SENT
    with closing(consumer(bootstrap, api_version=version)) as reader:
        partition = TopicPartition(topic, 0)
        (found,) = reader.offsets_for_times({partition: SENT[3].timestamp_ms}).values()
        assert (found.offset, found.timestamp) == (3, SENT[3].timestamp_ms)
        assert reader.beginning_offsets([partition]) == {partition: 0}
        assert reader.end_offsets([partition]) == {partition: len(SENT)}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acknowledgements(bootstrap: str, topic: str, acks: int | str) -> None:
    produce(bootstrap, topic, SENT, acks=acks, enable_idempotence=False)
    assert consume(bootstrap, topic, len(SENT)) == SENT


@pytest.mark.parametrize("with_sessions", [True, False])
def test_long_reads_of_many_partitions(bootstrap: str, topic: str, with_sessions: bool) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, 8, 1)])
    partitions = [TopicPartition(topic, number) for number in range(8)]
    with (
        closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer,
        closing(
            consumer(
                bootstrap, enable_incremental_fetch_sessions=with_sessions, fetch_max_bytes=500
            )
        ) as reader,
    ):
        reader.assign(partitions)
        reader.seek_to_beginning(*partitions)
        for round_number in range(3):
            for number in range(400):
                producer.send(topic, b"%d" % number, partition=number % 8)
            producer.flush(PATIENCE_SECONDS)
            messages = take(reader, 400)
            seen = {(found.partition, found.offset) for found in messages}
            first = 50 * round_number
            assert seen == {(number % 8, first + number // 8) for number in range(400)}


def test_too_large(bootstrap: str, topic: str) -> None:
    large = Sample(None, bytes(1_100_000), 0)
    with pytest.raises(MessageSizeTooLargeError):
        produce(bootstrap, topic, [large], max_request_size=2_000_000)


def test_topics(bootstrap: str, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, 3, 1, topic_configs={"cleanup.policy": "compact"})])
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, 3, 1)])
        (described,) = admin.describe_topics([topic])
        assert [part["leader_id"] for part in described["partitions"]] == [1, 1, 1]
        admin.delete_topics([topic])
        assert wait_until(lambda: topic not in admin.list_topics(), 60)
