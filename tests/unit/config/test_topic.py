"""Topic settings: defaults from the broker, checks of changes."""

import pytest

from kaa.config import ConfigError, ConfigValues, InvalidConfigError
from kaa.config.broker import BROKER
from kaa.config.topic import (
    BROKER_SYNONYMS,
    TOPIC,
    topic_defaults,
    topic_values,
    validate_topic,
)


def broker(**settings: str) -> ConfigValues:
    texts = {"node.id": "1", "process.roles": "broker", "controller.listener.names": "C"}
    texts |= {name.replace("_", "."): text for name, text in settings.items()}
    return BROKER.parse(texts)


def test_the_defaults_of_broker_and_topic_agree() -> None:
    defaults = topic_defaults(broker())
    for name, value in defaults.items():
        assert value == TOPIC[name].default, name
    assert set(TOPIC.names()) - set(defaults) == {
        "follower.replication.throttled.replicas",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
    for synonyms in BROKER_SYNONYMS.values():
        assert all(name in BROKER for name, _ in synonyms)


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ({"log_retention_hours": "1"}, "retention.ms", 3_600_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2"}, "retention.ms", 120_000),
        ({"log_retention_minutes": "2", "log_retention_ms": "3"}, "retention.ms", 3),
        ({"log_retention_hours": "-1"}, "retention.ms", -1),
        ({"log_retention_ms": "-5"}, "retention.ms", -1),
        ({"log_roll_hours": "2"}, "segment.ms", 7_200_000),
        ({"log_roll_jitter_ms": "5", "log_roll_jitter_hours": "1"}, "segment.jitter.ms", 5),
        ({"log_flush_scheduler_interval_ms": "9"}, "flush.ms", 9),
        ({"message_max_bytes": "77"}, "max.message.bytes", 77),
        ({"log_cleanup_policy": "compact"}, "cleanup.policy", ("compact",)),
        ({"unclean_leader_election_enable": "true"}, "unclean.leader.election.enable", True),
    ],
)
def test_a_broker_setting_is_the_default_of_its_topics(
    settings: dict[str, str], name: str, value: object
) -> None:
    assert topic_values(broker(**settings), {}).value(name) == value


def test_overrides_come_first_and_foreign_names_are_left_out() -> None:
    values = topic_values(
        broker(log_retention_hours="1"), {"retention.ms": "7", "from.the.future": "x"}
    )
    assert values.get_int("retention.ms") == 7
    assert "from.the.future" not in values
    assert set(values) == set(TOPIC.names())


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"nonsense": "1"}, "Unknown topic config name: nonsense"),
        ({"retention.ms": "-2"}, "retention.ms: it must be at least -1"),
        ({"segment.bytes": "1"}, "at least 1048576"),
        ({"cleanup.policy": "shred"}, "compact, delete"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "must not exceed"),
        ({"remote.storage.enable": "true"}, "remote.log.storage.system.enable=true"),
        ({"leader.replication.throttled.replicas": "0"}, "partitionId"),
    ],
)
def test_refused_changes(overrides: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        validate_topic(broker(), overrides)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy"),
        ({"retention.bytes": "100", "local.retention.bytes": "101"}, "local.retention.bytes"),
        ({"retention.bytes": "100", "local.retention.bytes": "-1"}, "local.retention.bytes"),
        ({"retention.ms": "100", "local.retention.ms": "101"}, "local.retention.ms"),
        (
            {"remote.log.copy.disable": "true", "retention.ms": "100", "local.retention.ms": "50"},
            "local.retention.ms",
        ),
    ],
)
def test_remote_storage_has_rules_of_its_own(overrides: dict[str, str], name: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        validate_topic(
            broker(), {"remote.storage.enable": "true", **overrides}, remote_storage_enabled=True
        )
    assert [problem.name for problem in caught.value.problems] == [name]


def test_remote_storage_is_turned_off_on_purpose_only() -> None:
    existing = {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfigError, match=r"remote\.log\.delete\.on\.disable"):
        validate_topic(broker(), {}, existing, remote_storage_enabled=True)
    overrides = {"remote.log.delete.on.disable": "true"}
    validate_topic(broker(), overrides, existing, remote_storage_enabled=True)
    good = {"remote.storage.enable": "true", "local.retention.ms": "5", "retention.ms": "-1"}
    values = validate_topic(broker(), good, existing, remote_storage_enabled=True)
    assert values.get_int("local.retention.ms") == 5
