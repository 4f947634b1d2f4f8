"""Settings of producers, consumers and admin clients."""

import pytest

from kaa.config import InvalidConfigError
from kaa.config.client import admin_values, consumer_values, producer_values

SERVERS = {"bootstrap.servers": "localhost:9092"}


def test_a_producer_is_idempotent_unless_its_settings_say_otherwise() -> None:
    values = producer_values(SERVERS)
    assert values.get_boolean("enable.idempotence")
    assert values.get_string("acks") == "-1"
    assert values.value("key.serializer") is None
    for overrides in ({"acks": "1"}, {"acks": "0"}, {"retries": "0"}):
        assert not producer_values({**SERVERS, **overrides}).get_boolean("enable.idempotence")
    assert producer_values({**SERVERS, "acks": "-1"}).get_boolean("enable.idempotence")


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"enable.idempotence": "true", "retries": "0"}, "retries"),
        ({"enable.idempotence": "true", "acks": "1"}, "acks"),
        (
            {"max.in.flight.requests.per.connection": "6"},
            "max.in.flight.requests.per.connection",
        ),
        ({"transactional.id": "t", "enable.idempotence": "false"}, "transactional.id"),
        ({"transactional.id": "t", "acks": "1"}, "transactional.id"),
        (
            {"transaction.two.phase.commit.enable": "true", "transaction.timeout.ms": "1"},
            "transaction.timeout.ms",
        ),
        ({"delivery.timeout.ms": "30004"}, "delivery.timeout.ms"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": ""}, "sasl.mechanism"),
        ({"bootstrap.servers": ""}, "bootstrap.servers"),
    ],
)
def test_refused_producer_settings(overrides: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        producer_values({**SERVERS, **overrides})
    assert [problem.name for problem in caught.value.problems] == [name]


def test_more_in_flight_without_idempotence() -> None:
    overrides = {"max.in.flight.requests.per.connection": "6", "enable.idempotence": "false"}
    producer_values({**SERVERS, **overrides})


def test_a_consumer_without_a_group_commits_nothing() -> None:
    assert not consumer_values(SERVERS).get_boolean("enable.auto.commit")
    assert consumer_values({**SERVERS, "group.id": "g"}).get_boolean("enable.auto.commit")


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"enable.auto.commit": "true"}, "enable.auto.commit"),
        ({"group.remote.assignor": "range"}, "group.remote.assignor"),
        ({"group.protocol": "Consumer", "session.timeout.ms": "9"}, "session.timeout.ms"),
        ({"share.acquire.mode": "record_limit"}, "share.acquire.mode"),
        ({"auto.offset.reset": "sometime"}, "auto.offset.reset"),
    ],
)
def test_refused_consumer_settings(overrides: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        consumer_values({**SERVERS, **overrides})
    assert [problem.name for problem in caught.value.problems] == [name]


def test_an_admin_client_asks_brokers_or_controllers() -> None:
    assert admin_values(SERVERS).get_list("bootstrap.servers") == ("localhost:9092",)
    admin_values({"bootstrap.controllers": "localhost:9093"})
    for texts in ({}, {**SERVERS, "bootstrap.controllers": "localhost:9093"}):
        with pytest.raises(InvalidConfigError, match="either"):
            admin_values(texts)


def test_a_pause_without_a_bound_is_the_pause() -> None:
    values = admin_values({**SERVERS, "reconnect.backoff.ms": "7"})
    assert values.get_int("reconnect.backoff.max.ms") == 7
    bounded = admin_values(
        {**SERVERS, "reconnect.backoff.ms": "7", "reconnect.backoff.max.ms": "9"}
    )
    assert bounded.get_int("reconnect.backoff.max.ms") == 9
