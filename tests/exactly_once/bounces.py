"""Kafka's own programs on a cluster of three, while its nodes stop, are killed and stand still.

A verifiable producer sends all the while, verifiable consumers read it in a group of each protocol,
and two transactional copiers with random aborts copy one topic into another. In the end each group
has read whatever was acknowledged, and the copy has every record once and in order.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.exactly_once.test_copier import committed_values, start_copier
from tests.exactly_once.test_verifiable import events, stop
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.exactly_once.java import Java, Program

TOPIC = "numbers"
PARTITIONS = 6
RECORDS_PER_SECOND = 200
COPIED_RECORDS = 4_000
COPIERS = 2
PROTOCOLS = ("classic", "consumer")


def run(java: Java, bootstrap: str, seconds: float, disturb: Callable[[], None]) -> str:
    """Disturbs the programs for so long, and lets them finish; says how much was done."""
    create_topic(bootstrap, TOPIC, PARTITIONS, replicas=3)
    create_topic(bootstrap, "output", 1, replicas=3)
    values = {
        number: [b"%d %d" % (number, index) for index in range(COPIED_RECORDS)]
        for number in range(COPIERS)
    }
    for number, own in values.items():
        create_topic(bootstrap, f"input-{number}", 1, replicas=3)
        samples = [Sample(None, value, FIRST_TIMESTAMP_MS) for value in own]
        produce(bootstrap, f"input-{number}", samples)
    producer = java.run(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--acks", "-1"),
        *("--throughput", str(RECORDS_PER_SECOND), "--repeating-keys", "100"),
    )
    groups = [_consumer(java, bootstrap, protocol) for protocol in PROTOCOLS]
    copiers = [start_copier(java, bootstrap, number) for number in range(COPIERS)]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        disturb()
    stop(producer)
    for copier in copiers:
        assert copier.end(PATIENCE_SECONDS) == 0, copier.output[-2000:]
    sent = {
        (event["partition"], event["offset"]) for event in events(producer, "producer_send_success")
    }
    assert sent, producer.output[-2000:]
    for program in groups:
        _until_read(program, sent)
        stop(program)
    copied = committed_values(bootstrap)
    for number, own in values.items():
        found = [value for value in copied if value.startswith(b"%d " % number)]
        assert found == own, f"of copier {number}: {len(found)} records, {len(set(found))} values"
    return f"{len(sent)} records acknowledged and read by each group, {len(copied)} copied once"


def _consumer(java: Java, bootstrap: str, protocol: str) -> Program:
    session = ("--session-timeout", "6000") if protocol == "classic" else ()
    return java.run(
        "org.apache.kafka.tools.VerifiableConsumer",
        *("--bootstrap-server", bootstrap, "--topic", TOPIC),
        *("--group-id", f"{protocol}-verifiers", "--group-protocol", protocol, *session),
    )


def _until_read(program: Program, sent: set[tuple[int, int]]) -> None:
    is_read = wait_until(lambda: _read(program) >= sent, PATIENCE_SECONDS)
    assert is_read, f"not read: {sorted(sent - _read(program))[:20]}"


def _read(program: Program) -> set[tuple[int, int]]:
    """Partitions and offsets of all records that were read."""
    return {
        (part["partition"], offset)
        for event in events(program, "records_consumed")
        for part in event["partitions"]
        for offset in range(part["minOffset"], part["maxOffset"] + 1)
    }
