"""Rules over several broker settings."""

import pytest

from kaa.config import ConfigValues
from kaa.config.broker import BROKER
from kaa.config.rules import RULES, connection_overrides, rule_problems

GOOD = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "broker.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def problems(settings: dict[str, str]) -> dict[str, str]:
    values, found = BROKER.parse_collecting({**GOOD, **settings})
    assert found == []
    return dict(rule_problems(ConfigValues(values)))


def test_the_defaults_break_no_rule() -> None:
    assert problems({}) == {}


@pytest.mark.parametrize(
    ("settings", "name", "says"),
    [
        ({"broker.id": "2"}, "broker.id", "remove broker.id"),
        ({"log.roll.ms": "0"}, "log.roll.ms", "at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms", "at least 0"),
        ({"log.retention.ms": "0"}, "log.retention.ms", "-1"),
        ({"log.retention.minutes": "0"}, "log.retention.ms", "at least 1"),
        ({"log.retention.hours": "0"}, "log.retention.ms", "at least 1"),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "log.cleaner.min.compaction.lag.ms",
            "must not exceed",
        ),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads", "at least 1"),
        ({"log.cleaner.threads": "128"}, "log.cleaner.dedupe.buffer.size", "134217728"),
        (
            {"cordoned.log.dirs": "/a,/b", "log.dirs": "/a"},
            "cordoned.log.dirs",
            "has /b, which is not in log.dirs",
        ),
        ({"cordoned.log.dirs": "*,/b"}, "cordoned.log.dirs", "* alone"),
        (
            {"replica.fetch.wait.max.ms": "30001", "replica.lag.time.max.ms": "40000"},
            "replica.fetch.wait.max.ms",
            "replica.socket.timeout.ms",
        ),
        (
            {"replica.fetch.wait.max.ms": "501", "replica.lag.time.max.ms": "500"},
            "replica.fetch.wait.max.ms",
            "replica.lag.time.max.ms (500)",
        ),
        ({"queued.max.request.bytes": "1000"}, "queued.max.request.bytes", "or -1"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip", "overrides"),
        (
            {"max.connections.per.ip.overrides": "a"},
            "max.connections.per.ip.overrides",
            "pairs",
        ),
        (
            {"max.connections.per.ip.overrides": "a:b"},
            "max.connections.per.ip.overrides",
            "host:count",
        ),
        (
            {"max.connections.per.ip.overrides": "a b:1"},
            "max.connections.per.ip.overrides",
            "host:count",
        ),
        (
            {"connections.max.idle.ms": "100"},
            "connection.failed.authentication.delay.ms",
            "below connections.max.idle.ms (100)",
        ),
        (
            {"controller.quorum.bootstrap.servers": ""},
            "controller.quorum.bootstrap.servers",
            "controller.quorum.voters",
        ),
        ({"controller.quorum.voters": "2@h:1"}, "controller.quorum.voters", "node.id 1"),
        ({"offsets.topic.compression.codec": "5"}, "offsets.topic.compression.codec", "4 (zstd)"),
        ({"metrics.recording.level": "LOUD"}, "metrics.recording.level", "DEBUG"),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "group.coordinator.rebalance.protocols",
            "classic",
        ),
        ({"group.consumer.assignors": "uniform,mine"}, "group.consumer.assignors", "has mine"),
        (
            {
                "group.share.assignors": (
                    "simple,org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
                )
            },
            "group.share.assignors",
            "one entry",
        ),
        ({"group.share.assignors": "other"}, "group.share.assignors", "built-in simple"),
        (
            {"group.consumer.heartbeat.interval.ms": "4000"},
            "group.consumer.min.heartbeat.interval.ms",
            "must not exceed group.consumer.heartbeat.interval.ms (4000)",
        ),
        (
            {
                "group.share.heartbeat.interval.ms": "45000",
                "group.share.max.heartbeat.interval.ms": "45000",
            },
            "group.share.heartbeat.interval.ms",
            "below group.share.session.timeout.ms",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas",
            "group.streams.max.standby.replicas (2)",
        ),
        (
            {"group.share.max.share.sessions": "10"},
            "group.share.max.size",
            "group.share.max.share.sessions (10)",
        ),
    ],
)
def test_a_broken_rule_says_what_to_change(settings: dict[str, str], name: str, says: str) -> None:
    found = problems(settings)
    assert name in found
    assert says in found[name]


@pytest.mark.parametrize(
    "settings",
    [
        {"log.retention.ms": "-1"},
        {"log.retention.hours": "-5"},
        {"log.cleaner.threads": "127"},
        {"cordoned.log.dirs": "*"},
        {"queued.max.request.bytes": "104857600"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "::1:5"},
        {"connections.max.idle.ms": "-1"},
        {"controller.quorum.voters": "1@h:1"},
        {"group.consumer.assignors": "range"},
        {
            "group.consumer.assignors": (
                "org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform"
            )
        },
        {"metrics.recording.level": "debug"},
    ],
)
def test_what_is_allowed(settings: dict[str, str]) -> None:
    assert problems(settings) == {}


def test_a_rule_waits_for_its_settings() -> None:
    assert list(rule_problems(ConfigValues({}))) == []
    values, found = BROKER.parse_collecting({**GOOD, "log.retention.ms": "x", "log.roll.ms": "0"})
    assert [problem.name for problem in found] == ["log.retention.ms"]
    assert dict(rule_problems(ConfigValues(values))) == {}


def test_rules_name_settings_that_exist() -> None:
    for rule in RULES:
        assert all(name in BROKER for name in rule.names)


def test_connection_overrides() -> None:
    values = ConfigValues({"max.connections.per.ip.overrides": "127.0.0.1:200, ::1:7"})
    assert connection_overrides(values) == {"127.0.0.1": 200, "::1": 7}
