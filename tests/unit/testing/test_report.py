from __future__ import annotations

import pytest

from kaa.testing import Broker
from kaa.testing.client import Connection
from kaa.testing.report import sections
from kaa.wire.messages.k03_metadata import MetadataRequest


def test_a_broker_that_saw_nothing_says_nothing() -> None:
    with Broker() as broker:
        assert sections(broker) == []


def test_topics_end_with_their_last_records() -> None:
    with Broker() as broker, broker.isolated("mine-"):
        broker.topic("orders").seed(map(str, range(20)))
        for number in range(12):
            broker.topic(f"z{number}")
        found = dict(sections(broker))
        lines = found["kafka: ends of topics"].splitlines()
        assert lines[:2] == [
            "mine-orders (end offsets 0: 20)",
            "  '15'  [partition 0, offset 15]",
        ]
        assert lines[-1] == "and 3 more topics"


def test_repeated_requests_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.testing.client.CLIENT_ID", "other")
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        connection = Connection(host, int(port))
        for _ in range(3):
            connection.send(MetadataRequest(topics=[]))
        connection.close()
        text = dict(sections(broker))["kafka: last requests"]
        assert text.splitlines()[-1].endswith("from other (x3)")


def test_a_killed_broker_says_why_it_cannot_be_asked() -> None:
    with Broker() as broker:
        broker.topic("orders")
        broker.kill()
        found = dict(sections(broker))
        assert "not running" in found["kafka: ends of topics"]
