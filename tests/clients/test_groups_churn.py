"""Groups of every library with members that come, leave, die and pause.

A few rounds here; `scripts/soak` goes on for longer, with up to 50 members.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.clients.churn import AiokafkaDriver, churn, driver_of
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("kind", "members", "rounds"),
    [("java consumer", 6, 3), ("java classic", 5, 2), ("java consumer", 50, 1)],
)
def test_java(
    oracle: Oracle, quick_broker: BrokerProcess, topic: str, kind: str, members: int, rounds: int
) -> None:
    bootstrap = quick_broker.bootstrap_servers
    driver = driver_of(kind, oracle, bootstrap, topic)
    churn(driver, bootstrap, topic, members=members, rounds=rounds, random=Random(1))


@pytest.mark.parametrize("kind", ["kafka-python", "aiokafka"])
def test_python(quick_broker: BrokerProcess, topic: str, kind: str) -> None:
    bootstrap = quick_broker.bootstrap_servers
    driver = driver_of(kind, None, bootstrap, topic)
    churn(driver, bootstrap, topic, members=4, rounds=1, random=Random(2))
    if isinstance(driver, AiokafkaDriver):
        driver.close()


@pytest.mark.parametrize(
    ("kind", "members", "rounds"),
    [
        ("librdkafka classic", 4, 3),
        ("librdkafka cooperative-sticky", 4, 3),
        ("librdkafka consumer", 12, 3),
    ],
)
def test_librdkafka(
    quick_broker: BrokerProcess, topic: str, kind: str, members: int, rounds: int
) -> None:
    bootstrap = quick_broker.bootstrap_servers
    driver = driver_of(kind, None, bootstrap, topic)
    churn(driver, bootstrap, topic, members=members, rounds=rounds, random=Random(4))
