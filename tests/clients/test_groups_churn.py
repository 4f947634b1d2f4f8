"""Groups of every library with members that come, leave, die and pause.

A few rounds here; `scripts/soak` goes on for longer, with up to 50 members.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.clients.churn import AiokafkaDriver, churn, driver_of
from tests.clients.groups import Audit, Feed, LibrdkafkaMember, wait_for
from tests.clients.librdkafka import create_topic
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS


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


def test_a_member_that_does_not_poll_is_left_behind_and_comes_back(
    quick_broker: BrokerProcess, topic: str
) -> None:
    """Three groups at a time, as it takes a while until librdkafka gives a member up."""
    bootstrap = quick_broker.bootstrap_servers
    create_topic(bootstrap, topic, 6)
    feed = Feed(bootstrap, topic, 0.005)
    kinds = (
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer"},
    )
    audits = [Audit() for _ in kinds]

    def join(number: int, name: str) -> LibrdkafkaMember:
        settings = {"group_id": f"{topic}-{number}", "max_poll_interval_ms": 6_000}
        settings |= kinds[number]
        return LibrdkafkaMember(audits[number], bootstrap, topic, name, **settings)

    sleepers = [join(number, "sleeper") for number in range(len(kinds))]
    others = [join(number, name) for number in range(len(kinds)) for name in ("m1", "m2")]

    def settle(*names: str) -> None:
        wait_for(lambda: all(audit.is_balanced(names, 6) for audit in audits))

    settle("sleeper", "m1", "m2")
    for sleeper in sleepers:
        sleeper.pause(PATIENCE_SECONDS)
    settle("m1", "m2")
    for sleeper in sleepers:
        sleeper.wake()
    settle("sleeper", "m1", "m2")
    sent = feed.stop()
    wait_for(lambda: all(set(audit.read) >= sent for audit in audits))
    for member in (*sleepers, *others):
        member.leave()
    assert [audit.breaches for audit in audits] == [[], [], []]
    for sleeper in sleepers:
        assert any("maximum poll interval" in error for error in sleeper.errors), sleeper.errors
