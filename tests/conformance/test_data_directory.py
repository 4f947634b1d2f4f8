"""One data directory, served by turns by Kaa and by a real Kafka node.

A broker that starts on the directory must find every record, offset, topic and setting that the
other left there, after a clean stop as after a kill, and the other must find its way back.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tests.clients.librdkafka import (
    as_sample,
    consume,
    consumer,
    create_topic,
    produce,
    watermarks,
)
from tests.clients.samples import CODECS, SAMPLES, Sample
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.real_node import RealNode

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle

KEYED = [sample for sample in SAMPLES if sample.key is not None]
LOG_START = 7


def fill(bootstrap: str) -> None:
    """Makes topics with records of every codec, deleted records, and settings of their own."""
    create_topic(bootstrap, "plain", partitions=2)
    create_topic(bootstrap, "compacted", cleanup_policy="compact", max_message_bytes=2_000_000)
    for codec in CODECS:
        produce(bootstrap, "plain", SAMPLES, compression_codec=codec, enable_idempotence=True)
        produce(bootstrap, "compacted", KEYED, compression_codec=codec, acks="1")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition("plain", 0, LOG_START)]).values():
        assert done.result(PATIENCE_SECONDS).low_watermark == LOG_START


def check(bootstrap: str, added: int = 0, log_start: int = LOG_START) -> dict[str, str]:
    """Finds all of it, and `added` times the samples more; gives the ids of the topics."""
    expected: list[Sample] = SAMPLES * (len(CODECS) + added)
    found = consume(bootstrap, "plain", len(expected) - log_start)
    assert [as_sample(message) for message in found] == expected[log_start:]
    assert found[0].offset() == log_start
    with consumer(bootstrap) as reader:
        for topic, partition, offsets in (
            ("plain", 0, (log_start, len(expected))),
            ("plain", 1, (0, 0)),
            ("compacted", 0, (0, len(KEYED) * len(CODECS))),
        ):
            assert watermarks(reader, TopicPartition(topic, partition)) == offsets
    # Cleaning may have taken records that have a successor, never the last of a key.
    last = consume(bootstrap, "compacted", 1, offset=len(KEYED) * len(CODECS) - 1)
    assert as_sample(last[0]) == KEYED[-1]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource("topic", "compacted")
    (described,) = admin.describe_configs([resource]).values()
    settings = described.result(PATIENCE_SECONDS)
    assert settings["cleanup.policy"].value == "compact"
    assert settings["max.message.bytes"].value == "2000000"
    return topic_ids(admin)


def topic_ids(admin: AdminClient) -> dict[str, str]:
    described = admin.describe_topics(TopicCollection(["plain", "compacted"]))
    return {name: str(done.result(PATIENCE_SECONDS).topic_id) for name, done in described.items()}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_kafka_goes_on_where_kaa_ended(oracle: Oracle, tmp_path: Path, end: str) -> None:
    data_dir = tmp_path / "node" / "data"
    with BrokerProcess(tmp_path / "node") as ours:
        fill(ours.bootstrap_servers)
        ids = check(ours.bootstrap_servers)
        getattr(ours, end)()
    with RealNode(tmp_path / "jvm", data_dir) as kafka:
        assert check(kafka.bootstrap_servers) == ids
        produce(kafka.bootstrap_servers, "plain", SAMPLES, enable_idempotence=True)
    with ours:
        assert check(ours.bootstrap_servers, added=1) == ids
        produce(ours.bootstrap_servers, "plain", SAMPLES, enable_idempotence=True)
        assert check(ours.bootstrap_servers, added=2) == ids
        ours.stop()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_kaa_goes_on_where_kafka_ended(oracle: Oracle, tmp_path: Path, end: str) -> None:
    kafka = RealNode(tmp_path / "jvm", tmp_path / "data")
    kafka.format()
    kafka.start()
    try:
        fill(kafka.bootstrap_servers)
        ids = check(kafka.bootstrap_servers)
    finally:
        getattr(kafka, end)()
    config_file = tmp_path / "server.properties"
    config_file.write_text("".join(f"{key}={text}\n" for key, text in kafka.properties.items()))
    port = int(kafka.bootstrap_servers.rpartition(":")[2])
    # Kafka writes the starts of logs down once a minute, so that a kill brings records back.
    log_start = LOG_START if end == "stop" else 0
    with BrokerProcess(tmp_path / "ours", config_file=config_file, port=port) as ours:
        assert check(ours.bootstrap_servers, log_start=log_start) == ids
        produce(ours.bootstrap_servers, "plain", SAMPLES, enable_idempotence=True)
        assert check(ours.bootstrap_servers, added=1, log_start=log_start) == ids
        ours.stop()
