"""DescribeConfigs: what Kaa would report, beside what a real broker reports."""

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kaa.config.broker import BROKER
from kaa.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_created_topic,
    describe_group,
    describe_topic,
)
from kaa.config.dynamic import apply_dynamic
from kaa.config.server import BrokerConfig, load_broker_config
from kaa.config.sources import merge_settings
from kaa.model.kinds import ConfigSource
from kaa.wire import api
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kaa.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.schema import Request
from tests.oracle.broker import RealKafka

# One worker for all: the topic of these tests can be created once.
pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("config-described")]

TOPIC, BROKER_RESOURCE, CLIENT_METRICS, GROUP = 2, 4, 16, 32
NAME = "config-described"
DESCRIBE_VERSION = 4
APPLY_SECONDS_MAX = 30

# The broker is shared: these are its defaults, so that setting them changes nothing for others.
FOR_ALL = {"message.max.bytes": "1048588", "leader.replication.throttled.rate": "9999999999"}
FOR_ONE = {"log.cleaner.backoff.ms": "15000", "log.roll.ms": "604800000"}
TOPIC_OVERRIDES = {"cleanup.policy": "compact, delete", "retention.ms": " 5000 "}
GROUP_OVERRIDES = {
    "consumer.session.timeout.ms": "50000",
    "share.isolation.level": "read_committed",
}
METRICS_OVERRIDES = {"interval.ms": "1000", "metrics": "a.b, c.d"}


class Connection:
    """One connection to a broker, one request at a time."""

    # The answer to the creation of the topic.
    created: CreatableTopicResult

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Request, version: int) -> Any:
        self._socket.sendall(b"".join(map(bytes, encode_request(request, version, 1, "config"))))
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(self._exactly(size), api(request.api_key), version)[1]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            received = self._socket.recv(count - len(data))
            assert received, "the broker closed the connection"
            data += received
        return data

    def alter(self, resource_type: int, name: str, changes: dict[str, str], operation: int) -> None:
        configs = [
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, value in changes.items()
        ]
        resource = AlterConfigsResource(
            resource_type=resource_type, resource_name=name, configs=configs
        )
        answer = self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert [each.error_code for each in answer.responses] == [0]

    def describe(self, resource_type: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
        resource = DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=True
        )
        [result] = self.ask(request, DESCRIBE_VERSION).results
        assert result.error_code == 0, result.error_message
        return {entry.name: entry for entry in result.configs}


@pytest.fixture(scope="module")
def connection(real_kafka: RealKafka) -> Iterator[Connection]:
    """A connection to a broker that has settings at every level."""
    opened = Connection(real_kafka.bootstrap_servers)
    levels = (
        (BROKER_RESOURCE, "", FOR_ALL),
        (BROKER_RESOURCE, "1", FOR_ONE),
        (GROUP, NAME, GROUP_OVERRIDES),
        (CLIENT_METRICS, NAME, METRICS_OVERRIDES),
    )
    configs = [CreatableTopicConfig(name=n, value=v) for n, v in TOPIC_OVERRIDES.items()]
    topic = CreatableTopic(
        name=NAME, num_partitions=1, replication_factor=1, assignments=[], configs=configs
    )
    for resource_type, name, changes in levels:
        opened.alter(resource_type, name, changes, 0)
    [opened.created] = opened.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert opened.created.error_code == 0
    await_change(opened)
    yield opened
    for resource_type, name, changes in levels:
        opened.alter(resource_type, name, changes, 1)
    opened.close()


def await_change(connection: Connection) -> None:
    """The changes reach the broker through its metadata log, the metrics subscription last."""
    deadline = time.monotonic() + APPLY_SECONDS_MAX
    source = ConfigSource.CLIENT_METRICS_CONFIG
    while connection.describe(CLIENT_METRICS, NAME)["interval.ms"].config_source != source:
        assert time.monotonic() < deadline, "the broker does not apply dynamic settings"


@pytest.fixture(scope="module")
def config(real_kafka: RealKafka) -> BrokerConfig:
    loaded = load_broker_config(merge_settings(development=real_kafka.properties))
    # With eligible leader replicas, a new cluster sets this for all brokers by itself.
    by_itself = {"min.insync.replicas": "1"}
    return apply_dynamic(loaded.config, FOR_ALL | by_itself, FOR_ONE)


def compare(ours: list[ConfigEntry], kafkas: dict[str, DescribeConfigsResourceResult]) -> None:
    ours = [entry for entry in ours if not entry.name.startswith("kaa.")]
    assert {entry.name for entry in ours} == set(kafkas)
    for entry in ours:
        theirs = kafkas[entry.name]
        assert (
            entry.value,
            entry.source,
            entry.is_sensitive,
            entry.read_only,
            entry.type,
            [(each.name, each.value, each.source) for each in entry.synonyms],
            entry.documentation is None,
        ) == (
            theirs.value,
            theirs.config_source,
            theirs.is_sensitive,
            theirs.read_only,
            theirs.config_type,
            [(each.name, each.value, each.source) for each in theirs.synonyms],
            theirs.documentation is None,
        ), entry.name


def test_a_broker(connection: Connection, config: BrokerConfig) -> None:
    kafkas = connection.describe(BROKER_RESOURCE, "1")
    assert len(kafkas) > len([key for key in BROKER if not key.internal]) - 2
    compare(describe_broker(config), kafkas)


def test_what_is_set_for_all_brokers(connection: Connection, config: BrokerConfig) -> None:
    compare(describe_broker_defaults(config), connection.describe(BROKER_RESOURCE, ""))


def test_a_topic(connection: Connection, config: BrokerConfig) -> None:
    compare(describe_topic(config, TOPIC_OVERRIDES), connection.describe(TOPIC, NAME))


def test_a_topic_just_created(connection: Connection, config: BrokerConfig) -> None:
    ours = [
        (entry.name, entry.value, entry.read_only, entry.source, entry.is_sensitive)
        for entry in describe_created_topic(config, TOPIC_OVERRIDES)
    ]
    configs = connection.created.configs
    assert configs is not None
    assert ours == sorted(
        (each.name, each.value, each.read_only, each.config_source, each.is_sensitive)
        for each in configs
    )


def test_a_group(connection: Connection, config: BrokerConfig) -> None:
    compare(describe_group(config, GROUP_OVERRIDES), connection.describe(GROUP, NAME))


def test_a_metrics_subscription(connection: Connection) -> None:
    kafkas = connection.describe(CLIENT_METRICS, NAME)
    compare(describe_client_metrics(METRICS_OVERRIDES), kafkas)
