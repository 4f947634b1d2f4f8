"""Group settings: defaults and bounds from the broker."""

import pytest

from kaa.config import ConfigError, ConfigValues, InvalidConfigError
from kaa.config.broker import BROKER
from kaa.config.group import BROKER_SYNONYMS, GROUP, group_defaults, group_values, validate_group


def broker(**settings: str) -> ConfigValues:
    texts = {"node.id": "1", "process.roles": "broker", "controller.listener.names": "C"}
    texts |= {name.replace("_", "."): text for name, text in settings.items()}
    return BROKER.parse(texts)


def test_the_defaults_of_broker_and_group_agree() -> None:
    for name, value in group_defaults(broker()).items():
        assert value == GROUP[name].default, name
    assert set(GROUP.names()) - set(BROKER_SYNONYMS) == {
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    }


def test_a_broker_setting_is_the_default_of_its_groups() -> None:
    values = group_values(broker(group_consumer_session_timeout_ms="50000"), {})
    assert values.get_int("consumer.session.timeout.ms") == 50_000


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"nonsense": "1"}, "Unknown group config name: nonsense"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"share.record.lock.duration.ms": "14999"}, "group.share.min.record.lock.duration.ms"),
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"streams.assignment.interval.ms": "15001"}, "group.streams.max.assignment.interval"),
        ({"share.auto.offset.reset": "none"}, "by_duration"),
        ({"share.delivery.count.limit": "1"}, "at least 2"),
    ],
)
def test_refused_changes(overrides: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        validate_group(broker(), overrides)


def test_a_session_outlives_a_heartbeat() -> None:
    loose = broker(
        group_consumer_max_heartbeat_interval_ms="60000",
    )
    with pytest.raises(InvalidConfigError) as caught:
        validate_group(
            loose,
            {"consumer.heartbeat.interval.ms": "45000", "consumer.session.timeout.ms": "45000"},
        )
    assert [problem.name for problem in caught.value.problems] == ["consumer.session.timeout.ms"]


def test_good_changes() -> None:
    values = validate_group(
        broker(), {"consumer.session.timeout.ms": "46000", "share.auto.offset.reset": "earliest"}
    )
    assert values.get_int("consumer.session.timeout.ms") == 46_000
    assert values.get_string("share.auto.offset.reset") == "earliest"


def test_a_stored_value_outside_the_bounds_counts_as_the_nearest() -> None:
    values = group_values(
        broker(),
        {
            "consumer.session.timeout.ms": "1",
            "share.delivery.count.limit": "99",
            "streams.num.standby.replicas": "9",
            "consumer.heartbeat.interval.ms": "6000",
        },
    )
    assert values.get_int("consumer.session.timeout.ms") == 45_000
    assert values.get_int("share.delivery.count.limit") == 10
    assert values.get_int("streams.num.standby.replicas") == 2
    assert values.get_int("consumer.heartbeat.interval.ms") == 6_000
