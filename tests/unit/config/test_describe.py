"""Settings as DescribeConfigs reports them."""

from kaa.config import ConfigType
from kaa.config.broker import BROKER
from kaa.config.describe import (
    ConfigEntry,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_created_topic,
    describe_group,
    describe_loggers,
    describe_topic,
)
from kaa.config.development import development_settings
from kaa.config.dynamic import apply_dynamic
from kaa.config.server import BrokerConfig, load_broker_config
from kaa.model.kinds import ConfigSource

DEFAULT = ConfigSource.DEFAULT_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
FOR_ALL = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
FOR_ONE = ConfigSource.DYNAMIC_BROKER_CONFIG


def node(*overrides: str) -> BrokerConfig:
    return load_broker_config(development_settings("d", overrides=overrides)).config


def by_name(entries: list[ConfigEntry]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in entries}


def test_every_broker_setting_is_reported() -> None:
    entries = by_name(describe_broker(node()))
    assert set(entries) == {key.name for key in BROKER if not key.internal}
    entry = entries["num.io.threads"]
    assert entry == ConfigEntry(
        "num.io.threads",
        "8",
        DEFAULT,
        False,
        False,
        ConfigType.INT,
        (Synonym("num.io.threads", "8", DEFAULT),),
        BROKER["num.io.threads"].documentation,
    )
    assert entries["log.dirs"].read_only
    assert entries["log.dirs"].source is STATIC
    assert entries["broker.id"].source is STATIC
    assert entries["log.roll.ms"] == ConfigEntry(
        "log.roll.ms",
        None,
        DEFAULT,
        False,
        False,
        ConfigType.LONG,
        (),
        BROKER["log.roll.ms"].documentation,
    )


def test_sources_and_synonyms() -> None:
    config = apply_dynamic(
        node("log.retention.ms=1", "log.retention.hours=3"),
        {"log.retention.ms": "2"},
        {"log.retention.ms": "4"},
    )
    (entry,) = describe_broker(config, ["log.retention.ms"])
    assert entry.value == "4"
    assert entry.source is FOR_ONE
    assert entry.synonyms == (
        Synonym("log.retention.ms", "4", FOR_ONE),
        Synonym("log.retention.ms", "2", FOR_ALL),
        Synonym("log.retention.ms", "1", STATIC),
        Synonym("log.retention.hours", "3", STATIC),
        Synonym("log.retention.hours", "168", DEFAULT),
    )


def test_secrets_and_unknown_names_have_no_value() -> None:
    config = node(
        "ssl.key.password=canary", "listener.name.plaintext.ssl.key.password=canary", "foo=canary"
    )
    entries = by_name(describe_broker(config))
    for name in ("ssl.key.password", "listener.name.plaintext.ssl.key.password", "foo"):
        assert entries[name].is_sensitive
        assert entries[name].value is None
    assert entries["foo"].type is ConfigType.UNKNOWN
    assert entries["listener.name.plaintext.ssl.key.password"].type is ConfigType.PASSWORD
    assert "canary" not in str(entries)


def test_listener_settings_and_internal_ones_show_where_they_are_set() -> None:
    config = node("listener.name.plaintext.max.connections=5", "log.initial.task.delay.ms=1")
    entries = by_name(describe_broker(config))
    entry = entries["listener.name.plaintext.max.connections"]
    assert (entry.value, entry.type, entry.documentation) == ("5", ConfigType.INT, None)
    assert entry.synonyms == (
        Synonym("listener.name.plaintext.max.connections", "5", STATIC),
        Synonym("max.connections", "2147483647", DEFAULT),
    )
    assert entries["log.initial.task.delay.ms"].value == "1"


def test_what_the_cluster_sets_for_all_brokers() -> None:
    layer = {"num.io.threads": "9", "leader.replication.throttled.rate": "5"}
    config = apply_dynamic(node("num.io.threads=7"), layer, {"num.io.threads": "8"})
    entries = by_name(describe_broker_defaults(config))
    assert set(entries) == set(layer)
    assert entries["num.io.threads"].value == "9"
    assert entries["num.io.threads"].source is FOR_ALL
    assert entries["num.io.threads"].synonyms == (Synonym("num.io.threads", "9", FOR_ALL),)
    assert entries["leader.replication.throttled.rate"].type is ConfigType.LONG
    assert not entries["leader.replication.throttled.rate"].read_only


def test_a_topic() -> None:
    config = apply_dynamic(node("log.segment.bytes=2000000"), {"log.retention.ms": "9"}, {})
    entries = by_name(describe_topic(config, {"cleanup.policy": "compact, delete", "odd": "1"}))
    assert entries["cleanup.policy"].value == "compact,delete"
    assert entries["cleanup.policy"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entries["cleanup.policy"].synonyms == (
        Synonym("cleanup.policy", "compact,delete", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.cleanup.policy", "delete", DEFAULT),
    )
    assert entries["segment.bytes"].source is STATIC
    assert entries["segment.bytes"].value == "2000000"
    assert entries["retention.ms"].source is FOR_ALL
    assert entries["retention.ms"].value == "9"
    assert entries["min.cleanable.dirty.ratio"].value == "0.5"
    assert entries["remote.storage.enable"].source is DEFAULT
    assert entries["odd"].is_sensitive
    assert "internal.segment.bytes" not in entries
    assert [entry.name for entry in describe_topic(config, {}, ["flush.ms"])] == ["flush.ms"]


def test_a_topic_just_created() -> None:
    config = apply_dynamic(node("log.retention.hours=2"), {"log.segment.bytes": "2000000"}, {})
    entries = by_name(describe_created_topic(config, {"flush.ms": " 9 "}))
    assert (entries["flush.ms"].value, entries["flush.ms"].source) == (
        " 9 ",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
    )
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("7200000", STATIC)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].source) == (
        "2000000",
        FOR_ALL,
    )
    assert entries["segment.ms"].value == "604800000"
    assert entries["segment.ms"].source is DEFAULT
    assert "internal.segment.bytes" not in entries


def test_loggers() -> None:
    (entry,) = describe_loggers({"kaa.log": "INFO", "root": "WARN"}, ["root"])
    assert (entry.name, entry.value) == ("root", "WARN")
    assert entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG


def test_a_group() -> None:
    entries = by_name(describe_group(node(), {"consumer.session.timeout.ms": "50000"}))
    entry = entries["consumer.session.timeout.ms"]
    assert (entry.value, entry.source) == ("50000", ConfigSource.GROUP_CONFIG)
    assert entry.synonyms[1] == Synonym("group.consumer.session.timeout.ms", "45000", DEFAULT)
    assert entries["share.isolation.level"].synonyms == (
        Synonym("share.isolation.level", "read_uncommitted", DEFAULT),
    )


def test_a_metrics_subscription() -> None:
    entries = by_name(describe_client_metrics({"interval.ms": "1000"}))
    assert entries["interval.ms"].source is ConfigSource.CLIENT_METRICS_CONFIG
    assert entries["interval.ms"].value == "1000"
    assert entries["metrics"].value == ""
    assert entries["metrics"].source is DEFAULT
