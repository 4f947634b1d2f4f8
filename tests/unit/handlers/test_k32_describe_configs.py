from __future__ import annotations

import logging
from typing import Any

import pytest

from kaa.config.topic import TOPIC
from kaa.model.kinds import ConfigSource
from kaa.wire.errors import Errors
from kaa.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.handlers.support import Node

TOPICS, BROKERS, LOGGERS, SUBSCRIPTIONS, GROUPS = 2, 4, 8, 16, 32


def describe(
    node: Node, kind: int, name: str, *keys: str, version: int | None = None, detailed: bool = False
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=detailed, include_documentation=detailed
    )
    (result,) = node.ask(request, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    found: DescribeConfigsResult = result
    return found


def only(result: DescribeConfigsResult) -> Any:
    (config,) = result.configs
    return config


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_topic(node: Node, version: int) -> None:
    node.create_topic("t", retention_ms="1000")
    result = describe(node, TOPICS, "t", version=version)
    assert (result.error_code, result.error_message) == (Errors.NONE, "")
    by_name = {config.name: config for config in result.configs}
    assert by_name.keys() == {key.name for key in TOPIC if not key.internal}
    assert by_name["retention.ms"].value == "1000"
    assert by_name["retention.ms"].config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert by_name["segment.bytes"].config_source == ConfigSource.DEFAULT_CONFIG


def test_synonyms_and_documentation_on_demand(node: Node) -> None:
    node.create_topic("t", retention_ms="1000")
    plain = only(describe(node, TOPICS, "t", "retention.ms", "absent"))
    assert plain.synonyms == []
    assert plain.documentation is None
    full = only(describe(node, TOPICS, "t", "retention.ms", detailed=True))
    assert full.synonyms[0].name == "retention.ms"
    assert full.documentation


def test_topics_that_do_not_exist(node: Node) -> None:
    absent = describe(node, TOPICS, "absent")
    assert (absent.error_code, absent.error_message) == (Errors.UNKNOWN_TOPIC_OR_PARTITION, "")
    illegal = describe(node, TOPICS, "no such name")
    assert illegal.error_code == Errors.INVALID_TOPIC_EXCEPTION
    assert illegal.error_message


def test_the_broker_and_its_defaults(node: Node) -> None:
    node.replay(
        ConfigRecord(resource_type=BROKERS, resource_name="", name="num.io.threads", value="9")
    )
    own = only(describe(node, BROKERS, "1", "node.id"))
    assert (own.value, own.read_only) == ("1", True)
    default = only(describe(node, BROKERS, "", "num.io.threads", "node.id"))
    assert default.value == "9"
    assert default.config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (BROKERS, "7"),
        (BROKERS, "x"),
        (LOGGERS, ""),
        (LOGGERS, "7"),
        (LOGGERS, "x"),
        (SUBSCRIPTIONS, ""),
        (GROUPS, ""),
    ],
)
def test_names_that_are_not_answered_here(node: Node, kind: int, name: str) -> None:
    result = describe(node, kind, name)
    assert result.error_code == Errors.INVALID_REQUEST
    assert result.error_message
    assert result.configs == []


def test_loggers(node: Node) -> None:
    logging.getLogger("kaa.test.describe").setLevel(logging.ERROR)
    config = only(describe(node, LOGGERS, "1", "kaa.test.describe", detailed=True))
    assert config.value == "ERROR"
    assert config.config_source == ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    assert config.documentation == ""


def test_groups_and_subscriptions_need_not_exist(node: Node) -> None:
    group = describe(node, GROUPS, "g", "consumer.session.timeout.ms")
    assert only(group).config_source == ConfigSource.DEFAULT_CONFIG
    node.replay(
        ConfigRecord(resource_type=SUBSCRIPTIONS, resource_name="s", name="metrics", value="a,b")
    )
    subscription = describe(node, SUBSCRIPTIONS, "s", "metrics")
    assert only(subscription).value == "a,b"
    assert only(subscription).config_source == ConfigSource.CLIENT_METRICS_CONFIG


@pytest.mark.parametrize("kind", [0, 1, 99])
def test_a_type_that_does_not_exist_spoils_the_request(node: Node, kind: int) -> None:
    node.create_topic("t")
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=each, resource_name="t", configuration_keys=None)
            for each in (TOPICS, kind)
        ]
    )
    results = node.ask(request).results
    assert [result.error_code for result in results] == [Errors.INVALID_REQUEST] * 2
    assert [result.resource_type for result in results] == [TOPICS, kind]
    assert all(result.error_message and not result.configs for result in results)
