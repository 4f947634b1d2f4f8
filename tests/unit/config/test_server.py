"""The configuration of a node as a whole."""

import pytest

from kaa.config import InvalidConfigError, Password
from kaa.config.addresses import Voter
from kaa.config.properties import Property, parse_properties
from kaa.config.server import (
    BrokerConfig,
    LoadedConfig,
    listener_setting,
    load_broker_config,
    with_id_synonym,
)
from kaa.config.sources import Settings, merge_settings
from kaa.config.topic import topic_default
from kaa.model.nodes import HostPort

# What an operator of a single node writes, in the style of the sample that comes with Kafka.
SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
log.dirs=/var/lib/data
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def settings(*overrides: str, **environment: str) -> Settings:
    return merge_settings(
        file=parse_properties(SERVER_PROPERTIES),
        file_name="server.properties",
        environment=environment,
        overrides=overrides,
    )


def load(*overrides: str) -> LoadedConfig:
    return load_broker_config(settings(*overrides))


def config(*overrides: str) -> BrokerConfig:
    return load(*overrides).config


def refused(*overrides: str) -> dict[str, str]:
    with pytest.raises(InvalidConfigError) as caught:
        load(*overrides)
    return dict(caught.value.problems)


def test_an_unmodified_file_loads() -> None:
    loaded = load()
    node = loaded.config
    assert node.node_id == 1
    assert node.get_int("broker.id") == 1
    assert node.log_dirs == ("/var/lib/data",)
    assert node.metadata_log_dir == "/var/lib/data"
    assert node.quorum_bootstrap_servers == (HostPort("localhost", 9093),)
    assert node.quorum_voters == ()
    assert [str(each) for each in node.listeners.broker] == ["PLAINTEXT://:9092"]
    assert [str(each) for each in node.listeners.advertised_controller] == [
        "CONTROLLER://localhost:9093"
    ]
    assert topic_default(node, "retention.ms") == 168 * 3_600_000
    assert node.consumer_assignors == ("uniform", "range")
    assert loaded.unknown_names == ()
    assert loaded.ineffective_names == ("num.io.threads", "num.network.threads")
    ineffective, is_open = loaded.warnings
    assert ineffective == (
        "These settings have no effect in Kaa: num.io.threads, num.network.threads."
    )
    assert is_open.startswith("Anyone who can connect to CONTROLLER://:9093 can control")


def test_everything_wrong_is_reported_at_once_with_its_place() -> None:
    found = refused(
        "log.segment.bytes=small",
        "num.partitions=0",
        "listeners=PLAINTEXT://:9092",
        "authorizer.class.name=a.B",
        "log.retention.hours=0",
        "listener.name.plaintext.max.connections=-1",
    )
    assert set(found) == {
        "log.segment.bytes",
        "num.partitions",
        "controller.listener.names",
        "authorizer.class.name",
        "log.retention.ms",
        "listener.name.plaintext.max.connections",
    }
    assert found["log.segment.bytes"] == (
        "Invalid value small for configuration log.segment.bytes: "
        "expected a whole number of 32 bits (set in the command line)"
    )
    assert found["controller.listener.names"].endswith("(set in server.properties line 8)")


def test_what_must_be_set() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        load_broker_config({})
    names = {problem.name for problem in caught.value.problems}
    assert names == {"process.roles", "node.id", "controller.listener.names"}


def test_a_node_with_one_role() -> None:
    broker = config(
        "process.roles=broker",
        "listeners=PLAINTEXT://:9092",
        "advertised.listeners=PLAINTEXT://localhost:9092",
        "controller.quorum.voters=7@controller.example:9093",
    )
    assert broker.listeners.controller == broker.listeners.advertised_controller == ()
    controller = config(
        "process.roles=controller",
        "listeners=CONTROLLER://localhost:9093",
        "advertised.listeners=CONTROLLER://localhost:9093",
    )
    assert controller.listeners.broker == controller.listeners.advertised_broker == ()
    assert "only a controller" in refused("process.roles=controller")["listeners"]
    assert "only a broker" in refused("process.roles=broker")["listeners"]


def test_a_setting_has_one_message() -> None:
    found = refused(
        "group.consumer.heartbeat.interval.ms=70000",
        "group.consumer.max.heartbeat.interval.ms=15000",
    )
    assert list(found) == ["group.consumer.heartbeat.interval.ms"]


def test_ids_stand_for_each_other() -> None:
    assert with_id_synonym({"broker.id": "3"}) == {"broker.id": "3", "node.id": "3"}
    assert with_id_synonym({"node.id": "3"}) == {"broker.id": "3", "node.id": "3"}
    assert with_id_synonym({}) == {}
    assert "remove broker.id" in refused("broker.id=2")["broker.id"]
    assert list(refused("node.id=one")) == ["node.id"]
    older = settings("broker.id=one")
    del older["node.id"]
    with pytest.raises(InvalidConfigError) as caught:
        load_broker_config(older)
    assert [problem.name for problem in caught.value.problems] == ["broker.id"]


def test_worked_out_values() -> None:
    node = config(
        "log.retention.minutes=5",
        "log.roll.ms=100",
        "log.roll.jitter.hours=1",
        "log.flush.scheduler.interval.ms=9",
        "cordoned.log.dirs=*",
        "metadata.log.dir=/m",
        "max.connections.per.ip.overrides=10.0.0.1:7",
        "controller.quorum.voters=1@h:9093,1@h:9093",
    )
    assert topic_default(node, "retention.ms") == 300_000
    assert topic_default(node, "segment.ms") == 100
    assert topic_default(node, "segment.jitter.ms") == 3_600_000
    assert topic_default(node, "flush.ms") == 9
    assert node.cordoned_log_dirs == ("/var/lib/data",)
    assert node.metadata_log_dir == "/m"
    assert node.max_connections_per_ip_overrides == {"10.0.0.1": 7}
    assert node.quorum_voters == (Voter(1, "h", 9093),)


def test_log_dir_counts_where_log_dirs_is_missing() -> None:
    texts = [entry for entry in parse_properties(SERVER_PROPERTIES) if entry.name != "log.dirs"]
    entries = [*texts, Property("log.dir", "/a,/b", 99)]
    loaded = load_broker_config(merge_settings(file=entries, file_name="f"))
    assert loaded.config.log_dirs == ("/a", "/b")


def test_listener_prefixes() -> None:
    node = config(
        "listener.name.plaintext.max.connections=5",
        "listener.name.plaintext.plain.sasl.jaas.config=canary",
    )
    values = node.listener_values("PLAINTEXT")
    assert values.get_int("max.connections") == 5
    assert values.get_password("plain.sasl.jaas.config") == Password("canary")
    assert values.get_int("num.partitions") == 1
    assert node.listener_values("CONTROLLER").get_int("max.connections") == 2**31 - 1
    assert "canary" not in repr(values)


def test_parts_of_a_listener_setting() -> None:
    parts = listener_setting("listener.name.a.scram-sha-256.sasl.jaas.config")
    assert parts is not None
    listener, base, key = parts
    assert (listener, base) == ("a", "scram-sha-256.sasl.jaas.config")
    assert key is not None
    assert key.name == "sasl.jaas.config"
    assert listener_setting("log.dirs") is None
    assert listener_setting("listener.name.a") is None


def test_names_worth_a_warning() -> None:
    loaded = load(
        "log.retension.hours=1",
        "zookeeper.connect=h:2181",
        "listener.name.PLAINTEXT.max.connections=5",
        "listener.name.other.max.connections=5",
        "listener.name.plaintext.nonsense=5",
        "rsm.config.x=1",
        "kaa.nonsense=1",
    )
    assert loaded.unknown_names == (
        "kaa.nonsense",
        "listener.name.PLAINTEXT.max.connections",
        "listener.name.plaintext.nonsense",
        "log.retension.hours",
    )
    assert loaded.removed_names == ("zookeeper.connect",)
    text = "\n".join(loaded.warnings)
    assert "log.retension.hours in the command line is ignored. Did you mean log.retention" in text
    assert "Write the name of the listener in small letters." in text
    assert "Kafka has dropped these settings, delete them: zookeeper.connect." in text
    assert "There is no listener for the settings that start with listener.name.other." in text


def test_a_synonym_from_elsewhere_that_wins_is_named() -> None:
    (warning,) = [w for w in load("log.dir=/elsewhere").warnings if "log.dir" in w]
    assert warning == (
        "log.dir in the command line has no effect, because log.dirs in server.properties line 12 "
        "comes first."
    )


def test_a_role_that_is_named_twice_counts_once() -> None:
    loaded = load("process.roles=controller,broker,broker")
    assert loaded.config.get_list("process.roles") == ("controller", "broker")
    (warning,) = [each for each in loaded.warnings if "process.roles" in each]
    assert warning == (
        "process.roles in the command line has broker more than once; repeated entries are ignored."
    )


def test_a_short_session_is_worth_a_warning() -> None:
    assert any("half" in warning for warning in load("broker.session.timeout.ms=3000").warnings)


def test_nothing_secret_in_messages_or_reprs() -> None:
    canary = "canary-9c1d"
    loaded = load(f"ssl.keystore.password={canary}", f"delegation.token.secret.key={canary}")
    assert canary not in repr(loaded.config)
    assert canary not in "\n".join(loaded.warnings)
    assert canary not in str(refused(f"ssl.keystore.password={canary}", "num.partitions=x"))
