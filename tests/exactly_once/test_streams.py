"""Kafka Streams: its smoke test, which checks its own results, with exactly-once processing; and
applications in streams groups (KIP-1071) that are killed, and whose broker is.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition

from tests.clients.librdkafka import consumer, create_topic, produce
from tests.clients.samples import Sample
from tests.exactly_once.smoke import SECONDS_MAX, SmokeTest
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from tests.exactly_once.java import Java, Program

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]

WORD_COUNT = str(Path(__file__).with_name("WordCount.java"))
WORDS = ("one", "two", "three")
LINES = 20
# A killed member is missed soon.
SOON = (
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.heartbeat.interval.ms=500",
    "group.streams.initial.rebalance.delay.ms=100",
)


def test_smoke_test(java: Java, tmp_path: Path) -> None:
    """By the classic protocol and as streams groups, at the same time: most of it is waiting."""
    with (
        BrokerProcess(tmp_path / "classic") as classic,
        BrokerProcess(tmp_path / "streams", *SOON) as streams,
    ):
        nodes = {"classic": classic, "streams": streams}
        runs = [
            SmokeTest(
                java,
                node.bootstrap_servers,
                tmp_path / f"{protocol}-application",
                protocol=protocol,
                guarantee="exactly_once_v2",
            )
            for protocol, node in nodes.items()
        ]
        for one in runs:
            one.finish()
        for node in nodes.values():
            node.check_health()


class Counts:
    """What comes out of a word count, as a consumer that reads committed records sees it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.found: dict[str, list[int]] = {word: [] for word in WORDS}
        self._settings = {
            "group_id": f"{topic}-reader",
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        self._bootstrap, self._topic = bootstrap, topic

    def wait_for(self, count: int) -> None:
        """Reads from the start until each word was counted so often."""
        self.found = {word: [] for word in WORDS}
        deadline = time.monotonic() + SECONDS_MAX / 2
        with consumer(self._bootstrap, **self._settings) as reader:
            reader.assign([TopicPartition(self._topic, number, 0) for number in range(2)])
            while not all(count in counts for counts in self.found.values()):
                assert time.monotonic() < deadline, self.found
                message = reader.poll(1.0)
                if message is not None and not message.error():
                    self.found[message.key().decode()].append(int(message.value()))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_streams_groups_over_kills(java: Java, tmp_path: Path, guarantee: str) -> None:
    """Every word is counted, and exactly once where that is promised."""
    with BrokerProcess(tmp_path / "node", *SOON) as node:
        bootstrap = node.bootstrap_servers
        for topic in ("in", "out"):
            create_topic(bootstrap, topic, 2)
        counts = Counts(bootstrap, "out")
        line = " ".join(WORDS).encode()
        lines = [Sample(None, line, 1_000 + number) for number in range(LINES)]

        def count_words(instance: int) -> Program:
            """Starts an instance with a state of its own, and waits until it counted all lines."""
            state = str(tmp_path / f"state-{instance}")
            started = java.run(WORD_COUNT, bootstrap, "words", guarantee, state, "in", "out")
            produce(bootstrap, "in", lines)
            counts.wait_for(LINES * instance)
            return started

        count_words(1).kill()
        node.kill()
        node.start()
        second = count_words(2)
        assert second.is_running
        second.stop()
    for found in counts.found.values():
        if guarantee == "exactly_once_v2":
            assert found == list(range(1, 2 * LINES + 1))
        else:
            assert set(found) >= set(range(LINES + 1, 2 * LINES + 1))
