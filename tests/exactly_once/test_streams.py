"""Kafka Streams' smoke test, which checks its own results, with exactly-once processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.librdkafka import create_topic

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exactly_once.java import Java
    from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

SMOKE_TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
TOPICS = [
    "echo",
    "data",
    "min",
    "min-suppressed",
    "min-raw",
    "max",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "dif",
    "cnt",
    "avg",
    "wcnt",
    "tagg",
]
PARTITIONS = 5
SECONDS_MAX = 180


def test_smoke_test(java: Java, node: BrokerProcess, tmp_path: Path) -> None:
    for topic in TOPICS:
        create_topic(node.bootstrap_servers, topic, PARTITIONS)
    settings = tmp_path / "streams.properties"
    settings.write_text(
        f"bootstrap.servers={node.bootstrap_servers}\n"
        "processing.guarantee=exactly_once_v2\n"
        f"state.dir={tmp_path / 'state'}\n"
    )
    worker = java.run(SMOKE_TEST, str(settings), "process")
    driver = java.run(SMOKE_TEST, str(settings), "run")
    code = driver.end(SECONDS_MAX)
    assert code == 0, driver.output[-3000:]
    assert "PROCESSED-MORE-THAN-GENERATED" not in driver.output
    assert "SUCCESS" in driver.output
    assert worker.is_running
    worker.stop()
    node.check_health()
