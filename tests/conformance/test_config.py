"""Settings compared with Kafka: every table, and its judgement of values and configurations."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaa.config import ConfigDef, ConfigError, ConfigKey, ConfigType, ConfigValues, Password
from kaa.config.broker import BROKER, DYNAMIC_BROKER
from kaa.config.client import (
    ADMIN,
    CONSUMER,
    PRODUCER,
    admin_values,
    consumer_values,
    producer_values,
)
from kaa.config.definition import Required
from kaa.config.dynamic import update_problems
from kaa.config.entity import CLIENT_METRICS, IP, USER, validate_client_metrics
from kaa.config.environment import environment_settings
from kaa.config.group import BROKER_SYNONYMS as GROUP_SYNONYMS
from kaa.config.group import GROUP, validate_group
from kaa.config.properties import as_mapping, decode_properties, format_properties
from kaa.config.server import BrokerConfig, load_broker_config
from kaa.config.sources import merge_settings
from kaa.config.topic import BROKER_SYNONYMS as TOPIC_SYNONYMS
from kaa.config.topic import TOPIC, topic_values, validate_topic
from kaa.config.validators import ValidList
from kaa.config.values import value_text
from kaa.model.nodes import SecurityProtocol
from tests.oracle import JavaError, Oracle

pytestmark = pytest.mark.oracle

TABLES = [BROKER, TOPIC, GROUP, PRODUCER, CONSUMER, ADMIN, CLIENT_METRICS, USER, IP]

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "log.dirs": "/var/lib/data",
}

# Rules that Kafka describes less exactly than it applies them.
DESCRIBED_OTHERWISE = {"share.acquire.mode"}


def kafka_keys(table: ConfigDef) -> Iterator[ConfigKey]:
    return (key for key in table if not key.name.startswith("kaa."))


def rows(oracle: Oracle, scope: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in oracle.jvm.call_one("config.table", scope)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.scope)
def test_names_types_defaults_importance_and_rules(oracle: Oracle, table: ConfigDef) -> None:
    java = rows(oracle, table.scope)
    assert {key.name for key in kafka_keys(table)} == set(java)
    for key in kafka_keys(table):
        compare(key, java[key.name])


def compare(key: ConfigKey, row: Mapping[str, Any]) -> None:
    ours = (
        key.type.name,
        isinstance(key.default, Required),
        key.default_text,
        key.importance.name,
        key.internal,
    )
    kafkas = tuple(row[part] for part in ("type", "required", "default", "importance", "internal"))
    assert ours == kafkas, key.name
    if key.name not in DESCRIBED_OTHERWISE:
        described = None if key.validator is None else key.validator.describe()
        assert described == row["validValues"], key.name
    if isinstance(key.validator, ValidList):
        allowed = (key.validator.empty_allowed, key.validator.null_allowed)
        assert allowed == (row["emptyAllowed"], row["nullAllowed"]), key.name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.scope)
def test_no_documentation_is_a_copy_of_kafkas(oracle: Oracle, table: ConfigDef) -> None:
    java = rows(oracle, table.scope)
    for key in kafka_keys(table):
        theirs = java[key.name]["documentation"]
        sentences = [part.strip() for part in key.documentation.split(". ")]
        assert not [part for part in sentences if part.strip(".") in theirs], key.name


def test_what_can_change_while_the_broker_runs(oracle: Oracle) -> None:
    java = oracle.jvm.call_one("config.updateModes")
    assert {key.name: key.update_mode.value for key in DYNAMIC_BROKER} == java
    quotas = rows(oracle, "broker quotas")
    for name, row in quotas.items():
        compare(DYNAMIC_BROKER[name], row)


def test_where_defaults_come_from(oracle: Oracle) -> None:
    java = oracle.jvm.call_one("config.topicSynonyms")
    assert {name: [list(each) for each in row] for name, row in TOPIC_SYNONYMS.items()} == java
    java = oracle.jvm.call_one("config.groupSynonyms")
    assert {key.name: GROUP_SYNONYMS.get(key.name) for key in GROUP} == java


SAMPLES = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "-2",
    "+3",
    " 7 ",
    "007",
    "2",
    "9",
    "10",
    "23",
    "100",
    "1000",
    "1048576",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-131072",
    "0.5",
    ".5",
    "1e3",
    "1d",
    "NaN",
    "Infinity",
    "-0.0",
    "0x1p-3",
    "1.0E-5",
    "1e22",
    "12345678.5",
    "1_000",
    "true",
    "False",
    "TRUE ",
    "yes",
    "a",
    "a,b",
    "a,,b",
    "a,",
    ",",
    "a, b ,a",
    "delete",
    "compact,delete",
    "delete,delete",
    "Delete",
    "gzip",
    "none",
    "producer",
    "uncompressed",
    "zstd",
    "CreateTime",
    "LogAppendTime",
    "info",
    "INFO",
    "DEBUG",
    "read_committed",
    "all",
    "ES256",
    "rs256",
    "PLAINTEXT",
    "sasl_ssl",
    "required",
    "upgrade",
    "broker",
    "broker,controller",
    "controller,broker,broker",
    "classic",
    "classic,share",
    "earliest",
    "by_duration:PT1H",
    "by_duration:-PT1H",
    "by_duration:P1DT2H3M4.5S",
    "by_duration:PT0.5S",
    "by_duration:PT-0.5S",
    "by_duration",
    "1@host:9093",
    "1@host:9093,2@[::1]:9094",
    "1@host",
    "x@host:1",
    "1@host:1@",
    "host:9092",
    "[::1]:9092,host:1",
    "host:99999",
    "host",
    "*",
    "0:1",
    "0:1,2:3",
    "0:1,*",
    "batch_optimized",
    "RECORD_LIMIT",
    "implicit",
    "use_all_dns_ips",
    "rebootstrap",
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.scope)
def test_the_same_texts_are_values(oracle: Oracle, table: ConfigDef) -> None:
    # A class name is a value for Java only if it can load the class.
    keys = [key for key in kafka_keys(table) if key.type is not ConfigType.CLASS]
    questions = [(key, text) for key in keys for text in SAMPLES]
    answers = oracle.jvm.call(
        "config.parse",
        [{"scope": table.scope, "name": key.name, "text": text} for key, text in questions],
    )
    for (key, text), answer in zip(questions, answers, strict=True):
        ours: str | None = None
        with suppress(ConfigError):
            value = key.parse(text)
            ours = value.reveal() if isinstance(value, Password) else value_text(value)
        assert ours == (None if isinstance(answer, JavaError) else answer), (key.name, text)


def load(changes: Mapping[str, str]) -> BrokerConfig:
    merged = {name: text for name, text in {**COMBINED, **changes}.items() if text != UNSET}
    return load_broker_config(merge_settings(development=merged)).config


UNSET = "<unset>"

ACCEPTED: list[dict[str, str]] = [
    {},
    {"node.id": UNSET, "broker.id": "1"},
    # A role that is named twice counts once.
    {"process.roles": "broker,controller,broker"},
    {"controller.quorum.voters": UNSET, "controller.quorum.bootstrap.servers": "a:1"},
    {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093"}
    | {"advertised.listeners": "PLAINTEXT://example:9092"},
    {"listeners": "PLAINTEXT://[::1]:9092,CONTROLLER://127.0.0.1:9092"},
    {"listeners": "PLAINTEXT://:0,CONTROLLER://:0"},
    {
        "listeners": "IN://10.0.0.1:1,OUT://:2,CONTROLLER://:3",
        "listener.security.protocol.map": "in:plaintext,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT,",
        "inter.broker.listener.name": "in",
        "early.start.listeners": "IN",
    },
    {"advertised.listeners": "PLAINTEXT://a:1,CONTROLLER://b:2"},
    {"log.dirs": UNSET, "log.dir": "/a,/b,/a"},
    {"metadata.log.dir": "/m"},
    {"log.retention.minutes": "5", "log.roll.hours": "1", "log.flush.interval.ms": "3"},
    {"log.retention.hours": "-7"},
    {"log.retention.ms": "-1"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5,::1:6"},
    {"queued.max.request.bytes": "0"},
    {"connections.max.idle.ms": "-1"},
    {"cordoned.log.dirs": "*"},
    {"cordoned.log.dirs": "/var/lib/data"},
    {"log.cleaner.threads": "127"},
    {"log.cleanup.policy": "compact,delete", "message.max.bytes": "77"},
    {"group.consumer.assignors": "range"},
    {"broker.session.timeout.ms": "1000"},
]

REFUSED: list[dict[str, str]] = [
    {"node.id": UNSET},
    {"node.id": "-1"},
    {"broker.id": "2"},
    {"process.roles": ""},
    {"process.roles": "broker,zookeeper"},
    {"controller.listener.names": UNSET},
    {"controller.listener.names": "OTHER"},
    {"controller.listener.names": "controller"},
    {"controller.listener.names": "PLAINTEXT,CONTROLLER"},
    {"controller.quorum.voters": UNSET},
    {"controller.quorum.voters": "2@localhost:9093"},
    {"controller.quorum.voters": "1@0.0.0.0:9093"},
    {"controller.quorum.voters": "localhost:9093"},
    {"listeners": ""},
    {"listeners": "PLAINTEXT://:9092"},
    {"listeners": "CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9093,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://1.2.3.4:9093,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://1.2.3.4:9093,CONTROLLER://1.2.3.5:9093"},
    {"listeners": "OTHER://:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "SSL://a:1"},
    {"advertised.listeners": "CONTROLLER://a:1"},
    {"advertised.listeners": ""},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:TLS,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:SSL,plaintext:SSL,CONTROLLER:PLAINTEXT"},
    {"inter.broker.listener.name": "OTHER"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "SSL"},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"security.inter.broker.protocol": "SSL"},
    {"early.start.listeners": "OTHER"},
    {"log.dirs": ""},
    {"log.roll.ms": "0"},
    {"log.roll.hours": "0"},
    {"log.roll.jitter.ms": "-1"},
    {"log.retention.ms": "0"},
    {"log.retention.minutes": "0"},
    {"log.retention.hours": "0"},
    {"log.cleaner.threads": "0"},
    {"log.cleaner.threads": "128"},
    {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
    {"replica.fetch.wait.max.ms": "30001"},
    {"replica.lag.time.max.ms": "499"},
    {"queued.max.request.bytes": "1000"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip.overrides": "127.0.0.1"},
    {"max.connections.per.ip.overrides": "127.0.0.1:x"},
    {"max.connections.per.ip.overrides": "a b:1"},
    {"connections.max.idle.ms": "100"},
    {"cordoned.log.dirs": "/elsewhere"},
    {"cordoned.log.dirs": "*,/var/lib/data"},
    {"offsets.topic.compression.codec": "9"},
    {"share.coordinator.state.topic.compression.codec": "-1"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"group.consumer.assignors": "nonsense"},
    {"group.share.assignors": "simple,nonsense"},
    {"group.consumer.heartbeat.interval.ms": "4999"},
    {"group.consumer.max.heartbeat.interval.ms": "4999"},
    {"group.consumer.session.timeout.ms": "60001"},
    {"group.consumer.assignment.interval.ms": "15001"},
    {"group.share.heartbeat.interval.ms": "15001"},
    {"group.share.session.timeout.ms": "44999"},
    {"group.share.max.share.sessions": "199"},
    {"group.share.min.record.lock.duration.ms": "30000"}
    | {"group.share.record.lock.duration.ms": "29999"},
    {"group.share.delivery.count.limit": "10", "group.share.max.delivery.count.limit": "9"},
    {"group.share.partition.max.record.locks": "4001"},
    {"group.streams.session.timeout.ms": "44999"},
    {"group.streams.num.standby.replicas": "3"},
    {
        "group.streams.heartbeat.interval.ms": "45000",
        "group.streams.max.heartbeat.interval.ms": "45000",
    },
]


def question(changes: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in {**COMBINED, **changes}.items() if text != UNSET}


def test_the_same_nodes_are_refused(oracle: Oracle) -> None:
    answers = oracle.jvm.call("config.broker", [question(changes) for changes in REFUSED])
    for changes, answer in zip(REFUSED, answers, strict=True):
        assert isinstance(answer, JavaError), changes
        with pytest.raises(ConfigError):
            load(changes)


def test_the_same_nodes_run_with_the_same_values(oracle: Oracle) -> None:
    answers = oracle.jvm.call("config.broker", [question(changes) for changes in ACCEPTED])
    for changes, answer in zip(ACCEPTED, answers, strict=True):
        assert not isinstance(answer, JavaError), (changes, answer)
        config = load(changes)
        listeners = config.listeners
        assert {
            "nodeId": config.node_id,
            "metadataLogDir": config.metadata_log_dir,
            "interBroker": listeners.inter_broker_name,
            "logDirs": list(config.log_dirs),
            "listeners": endpoints(listeners.all),
            "advertisedBroker": endpoints(listeners.advertised_broker),
            "advertisedController": endpoints(listeners.advertised_controller),
            "topicDefaults": {
                name: value_text(value)
                for name, value in topic_values(config, {}).as_dict().items()
            },
        } == answer


def endpoints(found: tuple[Any, ...]) -> list[list[Any]]:
    return [
        [e.listener, SecurityProtocol(e.security_protocol).name, e.host or None, e.port]
        for e in found
    ]


TOPIC_CHANGES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    ({}, {"retention.ms": "5", "cleanup.policy": "compact"}),
    ({}, {"nonsense": "1"}),
    ({}, {"retention.ms": "-2"}),
    ({}, {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
    ({}, {"remote.storage.enable": "true"}),
    ({}, {"remote.log.copy.disable": "true"}),
    ({"remote.storage.enable": "true"}, {}),
    ({"remote.storage.enable": "true"}, {"remote.log.delete.on.disable": "true"}),
    ({}, {"internal.segment.bytes": "100"}),
    ({}, {"cleanup.policy": ""}),
    ({}, {"leader.replication.throttled.replicas": "0:1,1:2"}),
]


def test_the_same_changes_of_topics_are_refused(oracle: Oracle) -> None:
    config = load({})
    answers = oracle.jvm.call(
        "config.topic",
        [
            {"broker": COMBINED, "existing": existing, "overrides": overrides}
            for existing, overrides in TOPIC_CHANGES
        ],
    )
    for (existing, overrides), answer in zip(TOPIC_CHANGES, answers, strict=True):
        refused = False
        try:
            validate_topic(config, overrides, existing)
        except ConfigError:
            refused = True
        assert refused is isinstance(answer, JavaError), (existing, overrides, answer)


REMOTE = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "a.Storage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
}

REMOTE_TOPICS: list[dict[str, str]] = [
    {},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": ""},
    {"retention.bytes": "10", "local.retention.bytes": "11"},
    {"retention.bytes": "10", "local.retention.bytes": "-1"},
    {"retention.bytes": "10", "local.retention.bytes": "10"},
    {"local.retention.bytes": "99"},
    {"retention.ms": "10", "local.retention.ms": "11"},
    {"retention.ms": "-1", "local.retention.ms": "-1"},
    {"retention.ms": "10", "local.retention.ms": "5", "remote.log.copy.disable": "true"},
    {"retention.ms": "10", "local.retention.ms": "10", "remote.log.copy.disable": "true"},
    {"local.retention.ms": "-2", "remote.log.copy.disable": "true"},
]


def test_the_same_tiered_topics_are_refused(oracle: Oracle) -> None:
    tiered = [{"remote.storage.enable": "true", **each} for each in REMOTE_TOPICS]
    broker = ConfigValues(BROKER.parse_collecting({**COMBINED, **REMOTE})[0])
    answers = oracle.jvm.call(
        "config.topic",
        [{"broker": {**COMBINED, **REMOTE}, "overrides": overrides} for overrides in tiered],
    )
    for overrides, answer in zip(tiered, answers, strict=True):
        refused = False
        try:
            validate_topic(broker, overrides, remote_storage_enabled=True)
        except ConfigError:
            refused = True
        assert refused is isinstance(answer, JavaError), (overrides, answer)


GROUP_CHANGES: list[dict[str, str]] = [
    {},
    {"nonsense": "1"},
    *(
        {name: text}
        for name in GROUP.names()
        for text in ("0", "1", "2", "10", "11", "100", "4999", "5000", "15000", "15001", "45000")
    ),
    {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"},
    {"consumer.session.timeout.ms": "60001"},
    {"share.record.lock.duration.ms": "60000", "share.partition.max.record.locks": "4000"},
    {"share.partition.max.record.locks": "4001"},
]


def test_the_same_changes_of_groups_are_refused(oracle: Oracle) -> None:
    config = load({})
    answers = oracle.jvm.call(
        "config.group", [{"broker": COMBINED, "overrides": each} for each in GROUP_CHANGES]
    )
    for overrides, answer in zip(GROUP_CHANGES, answers, strict=True):
        refused = False
        try:
            validate_group(config, overrides)
        except ConfigError:
            refused = True
        assert refused is isinstance(answer, JavaError), (overrides, answer)


CLIENT_METRICS_CHANGES: list[dict[str, str]] = [
    {},
    {"nonsense": "1"},
    {"interval.ms": "99"},
    {"interval.ms": "100"},
    {"interval.ms": "3600000"},
    {"interval.ms": "3600001"},
    {"metrics": "*"},
    {"match": "client_id=a.*"},
    {"match": "client_id=a.*,client_source_port=1"},
    {"match": "client_id"},
    {"match": "color=red"},
    {"match": "client_id=("},
    {"match": "client_id=a=b"},
    {"match": " client_id = x "},
]


def test_the_same_metrics_subscriptions_are_refused(oracle: Oracle) -> None:
    answers = oracle.jvm.call("config.clientMetrics", CLIENT_METRICS_CHANGES)
    for overrides, answer in zip(CLIENT_METRICS_CHANGES, answers, strict=True):
        refused = False
        try:
            validate_client_metrics(overrides)
        except ConfigError:
            refused = True
        assert refused is isinstance(answer, JavaError), (overrides, answer)


CLIENT_SETTINGS: list[tuple[str, dict[str, str]]] = [
    ("producer", {}),
    ("producer", {"acks": "1"}),
    ("producer", {"acks": "1", "enable.idempotence": "true"}),
    ("producer", {"retries": "0", "enable.idempotence": "true"}),
    ("producer", {"retries": "0"}),
    ("producer", {"max.in.flight.requests.per.connection": "6"}),
    ("producer", {"max.in.flight.requests.per.connection": "6", "acks": "1"}),
    ("producer", {"max.in.flight.requests.per.connection": "6", "enable.idempotence": "false"}),
    ("producer", {"transactional.id": "t"}),
    ("producer", {"transactional.id": "t", "acks": "0"}),
    ("producer", {"transactional.id": "t", "enable.idempotence": "false"}),
    (
        "producer",
        {"transaction.two.phase.commit.enable": "true", "transaction.timeout.ms": "1"},
    ),
    ("producer", {"security.protocol": "SASL_SSL", "sasl.mechanism": ""}),
    ("consumer", {}),
    ("consumer", {"enable.auto.commit": "true"}),
    ("consumer", {"enable.auto.commit": "true", "group.id": "g"}),
    ("consumer", {"group.remote.assignor": "range"}),
    ("consumer", {"group.protocol": "consumer", "group.remote.assignor": "range"}),
    ("consumer", {"group.protocol": "CONSUMER", "session.timeout.ms": "1"}),
    ("consumer", {"share.acquire.mode": "record_limit"}),
    ("admin", {}),
    ("admin", {"security.protocol": "sasl_plaintext", "sasl.mechanism": ""}),
]


def test_the_same_clients_are_refused(oracle: Oracle) -> None:
    read = {"producer": producer_values, "consumer": consumer_values, "admin": admin_values}
    servers = {"bootstrap.servers": "localhost:9092"}
    answers = oracle.jvm.call(
        "config.client",
        [{"kind": kind, "settings": {**servers, **texts}} for kind, texts in CLIENT_SETTINGS],
    )
    for (kind, texts), answer in zip(CLIENT_SETTINGS, answers, strict=True):
        refused = False
        try:
            read[kind]({**servers, **texts})
        except ConfigError:
            refused = True
        assert refused is isinstance(answer, JavaError), (kind, texts, answer)


def test_the_same_dynamic_changes_are_refused(oracle: Oracle) -> None:
    names = [key.name for key in kafka_keys(BROKER)] + [key.name for key in DYNAMIC_BROKER]
    names += [
        "listener.name.a.ssl.keystore.location",
        "listener.name.a.max.connections",
        "listener.name.a.plain.sasl.jaas.config",
        "unknown.name",
    ]
    # A Java class that both sides accept where a class is asked for.
    texts = ["1", "x", "", "org.apache.kafka.common.metrics.JmxReporter"]
    changes = [
        (name, text, per_broker)
        for name in sorted(set(names))
        for text in texts
        for per_broker in (False, True)
        if is_asked(name, text)
    ]
    answers = oracle.jvm.call(
        "config.dynamic",
        [{"changes": {name: text}, "perBroker": flag} for name, text, flag in changes],
    )
    for (name, text, flag), answer in zip(changes, answers, strict=True):
        problems = list(update_problems({name: text}, per_broker=flag))
        assert bool(problems) is isinstance(answer, JavaError), (name, text, flag, answer)


def is_asked(name: str, text: str) -> bool:
    """Whether both sides can judge a text: Java wants classes and providers that it has."""
    key = DYNAMIC_BROKER.get(name)
    if name == "config.providers":
        return text == ""
    return key is None or (key.type is ConfigType.CLASS) is (text.startswith("org."))


names = st.text(st.sampled_from("AB_ab1-"), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(names.map("KAFKA_".__add__) | names, st.text("xy=", max_size=3)))
def test_the_environment_means_the_same(oracle: Oracle, environment: dict[str, str]) -> None:
    environment |= {"KAFKA_OPTS": "x", "KAFKA_LOG4J_LOGGERS": "y", "KAFKA_VERSION": "z"}
    environment.pop("KAFKA_", None)
    java = oracle.jvm.call_one("config.environment", environment)
    ours = [f"{name}={value}" for name, value, _ in environment_settings(environment)]
    assert sorted(ours) == sorted(java)


properties_text = st.text(
    st.sampled_from("ab=: \t\f\\\n\r#!u0041,\u00e9") | st.characters(codec="latin-1"), max_size=40
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(properties_text)
def test_properties_files_mean_the_same(oracle: Oracle, text: str) -> None:
    data = text.encode("latin-1")
    [java] = oracle.jvm.call("config.readProperties", [{"bytes": data}])
    ours: dict[str, str] | None = None
    with suppress(ConfigError):
        ours = as_mapping(decode_properties(data))
    assert ours == (None if isinstance(java, JavaError) else java)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text())
def test_properties_are_written_alike(oracle: Oracle, name: str, value: str) -> None:
    java = oracle.jvm.call_one("config.writeProperties", {"name": name, "value": value})
    assert format_properties({name: value}) == java
