"""Broker settings that change while the broker runs."""

import pytest

from kaa.config import InvalidConfigError
from kaa.config.development import development_settings
from kaa.config.dynamic import (
    apply_dynamic,
    in_force,
    synonyms,
    update_problems,
    usable_update,
    validate_update,
)
from kaa.config.server import BrokerConfig, load_broker_config
from kaa.config.topic import topic_default


def node(*overrides: str) -> BrokerConfig:
    return load_broker_config(development_settings("d", overrides=overrides)).config


def test_layers() -> None:
    config = apply_dynamic(node("num.io.threads=4"), {"num.io.threads": "5"}, {})
    assert config.get_int("num.io.threads") == 5
    config = apply_dynamic(config, {"num.io.threads": "5"}, {"num.io.threads": "6"})
    assert config.get_int("num.io.threads") == 6
    assert apply_dynamic(config, {}, {}).get_int("num.io.threads") == 4
    assert config.dynamic_default == {"num.io.threads": "5"}
    assert config.dynamic_broker == {"num.io.threads": "6"}


def test_a_dynamic_setting_replaces_its_synonyms() -> None:
    config = node("log.retention.ms=5", "log.roll.hours=3", "log.flush.scheduler.interval.ms=8")
    changed = apply_dynamic(config, {"log.retention.ms": "7"}, {"log.roll.ms": "9"})
    assert topic_default(changed, "retention.ms") == 7
    assert topic_default(changed, "segment.ms") == 9
    assert changed.get_int("log.roll.hours") == 168
    assert topic_default(changed, "flush.ms") == 8
    # A lower layer's setting gives way as well.
    both = apply_dynamic(config, {"log.retention.ms": "7"}, {"log.retention.ms": "8"})
    assert topic_default(both, "retention.ms") == 8


def test_synonyms() -> None:
    assert synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert synonyms("log.flush.interval.ms") == (
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    )
    assert synonyms("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)
    assert synonyms("num.io.threads") == ("num.io.threads",)
    name = "listener.name.a.plain.sasl.jaas.config"
    assert synonyms(name) == (name, "sasl.jaas.config")
    assert synonyms("listener.name.a.x") == ("listener.name.a.x", "x")


@pytest.mark.parametrize(
    ("name", "text", "per_broker", "says"),
    [
        ("log.dirs", "/x", True, "cannot change"),
        ("ssl.keystore.location", "/x", True, "listener.name.<name>.ssl.keystore.location"),
        ("listeners", "PLAINTEXT://:1", False, "one broker"),
        ("listener.name.plaintext.ssl.keystore.location", "/x", False, "one broker"),
        ("log.retention.ms", "x", False, "whole number"),
        ("listener.name.plaintext.max.connections", "x", False, "whole number"),
        ("leader.replication.throttled.rate", "-1", True, "at least 0"),
    ],
)
def test_refused_updates(name: str, text: str, per_broker: bool, says: str) -> None:
    (problem,) = update_problems({name: text}, per_broker=per_broker)
    assert problem.name == name
    assert says in problem.message
    with pytest.raises(InvalidConfigError):
        validate_update(node(), {name: text}, per_broker=per_broker)


def test_good_updates() -> None:
    changes = {
        "log.retention.ms": "9",
        "leader.replication.throttled.rate": "100",
        "listener.name.plaintext.max.connections": "5",
        "a.plugin.setting": "1",
    }
    config = validate_update(node(), changes, per_broker=False)
    assert topic_default(config, "retention.ms") == 9
    assert config.listener_values("PLAINTEXT").get_int("max.connections") == 5
    own = {"listeners": "PLAINTEXT://127.0.0.1:9999,CONTROLLER://127.0.0.1:0"}
    assert validate_update(config, own, per_broker=True).listeners.broker[0].port == 9999


def test_values_are_checked_together() -> None:
    with pytest.raises(InvalidConfigError, match="compaction"):
        validate_update(
            node(),
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            per_broker=False,
        )
    with pytest.raises(InvalidConfigError, match="half and double"):
        validate_update(node(), {"num.io.threads": "17"}, per_broker=False)
    with pytest.raises(InvalidConfigError, match="half and double"):
        validate_update(node(), {"num.io.threads": "3"}, per_broker=True)
    validate_update(node(), {"num.io.threads": "16"}, per_broker=False)
    moved = {
        "listeners": "OTHER://127.0.0.1:9999,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with pytest.raises(InvalidConfigError):
        validate_update(node(), moved, per_broker=True)


def test_assignment_intervals_move_within_their_bounds() -> None:
    name = "group.consumer.assignment.interval.ms"
    high = apply_dynamic(node(), {name: "99999"}, {})
    assert high.get_int(name) == 15_000
    low = apply_dynamic(node("group.consumer.min.assignment.interval.ms=50"), {}, {name: "1"})
    assert low.get_int(name) == 50


def test_a_stored_layer_is_used_as_far_as_it_is_good() -> None:
    stored = {"num.io.threads": "5", "log.dirs": "/x", "log.retention.ms": "bad"}
    usable, problems = usable_update(stored, per_broker=False)
    assert usable == {"num.io.threads": "5"}
    assert [problem.name for problem in problems] == ["log.dirs", "log.retention.ms"]


def test_stored_values_that_are_good_alone_and_not_together_are_left_out() -> None:
    low, high = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    stored = {low: "100", high: "50", "num.io.threads": "5"}
    config, problems = in_force(node(), stored, {"log.retention.ms": "bad", "log.roll.ms": "9"})
    assert config.get_int("num.io.threads") == 5
    assert config.dynamic_broker == {"log.roll.ms": "9"}
    assert (config.get_int(low), config.get_int(high)) == (0, 50)
    assert {problem.name for problem in problems} == {low, "log.retention.ms"}


def test_a_stored_value_against_a_static_one_is_left_out() -> None:
    """The rule complains about the static one, and only the other can be left out."""
    low, high = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    stored = {high: "50", "num.io.threads": "5"}
    config, problems = in_force(node(f"{low}=100"), stored, {})
    assert (config.get_int(low), config.get_int("num.io.threads")) == (100, 5)
    assert config.get_int(high) > 100
    assert problems


def test_a_stored_synonym_of_a_bad_value_is_left_out() -> None:
    config, problems = in_force(node(), {}, {"log.retention.ms": "0"})
    assert config.dynamic_broker == {}
    assert [problem.name for problem in problems] == ["log.retention.ms"]


def test_a_directory_that_is_gone_does_not_end_the_cordon_of_others() -> None:
    stored = {"cordoned.log.dirs": "/a, /gone"}
    config, problems = in_force(node("log.dirs=/a,/b"), {}, stored)
    assert config.cordoned_log_dirs == ("/a",)
    assert ["/gone" in problem.message for problem in problems] == [True]
    config, problems = in_force(node("log.dirs=/a,/b"), {}, {"cordoned.log.dirs": "/gone"})
    assert (config.cordoned_log_dirs, len(problems)) == ((), 1)
    assert in_force(node("log.dirs=/a,/b"), {}, {"cordoned.log.dirs": "*"})[1] == []
