"""Kafka's transactional copier with random aborts, while copiers and the node are killed.

Every record of the input must be in the output once, in the order of its partition, for a reader of
committed records. Each killed copier is started again with the same transactional id, as Kafka's
own system test does it.
"""

from __future__ import annotations

import threading
import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from tests.clients.librdkafka import consumer, create_topic, produce
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample

if TYPE_CHECKING:
    from tests.exactly_once.java import Java, Program
    from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
RECORDS = 20_000
SECONDS_MAX = 150
KILLS = 8
KILLS_MIN = 4


def start_copier(java: Java, bootstrap: str, number: int) -> Program:
    return java.run(
        COPIER,
        *("--broker-list", bootstrap),
        *("--input-topic", f"input-{number}", "--input-partition", "0"),
        *("--output-topic", "output", "--transaction-size", "40"),
        *("--transaction-timeout", "10000", "--transactional-id", f"copier-{number}"),
        *("--consumer-group", f"copiers-{number}", "--enable-random-aborts"),
        *(("--use-group-metadata",) if number else ()),
    )


def committed_values(bootstrap: str) -> list[bytes]:
    """All of the output."""
    settings = {"isolation_level": "read_committed", "enable_partition_eof": True}
    with consumer(bootstrap, **settings) as reader:
        reader.assign([TopicPartition("output", 0, OFFSET_BEGINNING)])
        values: list[bytes] = []
        while (message := reader.poll(30)) is not None:
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return values
            values.append(message.value())
    raise AssertionError(f"the end was not reached after {len(values)} records")


def test_every_record_is_copied_once(java: Java, node: BrokerProcess) -> None:
    random = Random(20)
    create_topic(node.bootstrap_servers, "output")
    for number in range(2):
        create_topic(node.bootstrap_servers, f"input-{number}")
        values = [b"%d %d" % (number, index) for index in range(RECORDS)]
        samples = [Sample(None, value, FIRST_TIMESTAMP_MS) for value in values]
        produce(node.bootstrap_servers, f"input-{number}", samples)
    copiers = [start_copier(java, node.bootstrap_servers, number) for number in range(2)]
    ends = time.monotonic() + SECONDS_MAX
    kills = 0
    while any(copier.is_running for copier in copiers):
        assert time.monotonic() < ends, [copier.output[-1000:] for copier in copiers]
        threading.Event().wait(random.uniform(1.5, 3))
        victim = random.randrange(3)
        if kills == KILLS:
            continue
        kills += 1
        if victim == 2:
            node.kill()
            node.start()
        elif copiers[victim].is_running:
            copiers[victim].kill()
            copiers[victim] = start_copier(java, node.bootstrap_servers, victim)
    assert kills >= KILLS_MIN, "the work was over too soon to be disturbed"
    for copier in copiers:
        assert copier.end(1) == 0, copier.output[-2000:]
    copied = committed_values(node.bootstrap_servers)
    for number in range(2):
        own = [value for value in copied if value.startswith(b"%d " % number)]
        assert own == [b"%d %d" % (number, index) for index in range(RECORDS)]
    assert len(copied) == 2 * RECORDS
    node.check_health()
