from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.handlers.support import Node

TOPICS, BROKERS, LOGGERS, SUBSCRIPTIONS, GROUPS = 2, 4, 8, 16, 32


@pytest.fixture
def configured(node: Node) -> Node:
    node.create_topic("t")
    for kind, name in ((SUBSCRIPTIONS, "s"), (GROUPS, "g")):
        node.replay(ConfigRecord(resource_type=kind, resource_name=name, name="x", value="y"))
    return node


def listed(node: Node, *kinds: int) -> set[tuple[int, str]]:
    response = node.ask(ListConfigResourcesRequest(resource_types=list(kinds)))
    assert response.error_code == Errors.NONE
    return {(found.resource_type, found.resource_name) for found in response.config_resources}


def test_everything_and_single_types(configured: Node) -> None:
    everything = {
        (TOPICS, "t"),
        (BROKERS, "1"),
        (LOGGERS, "1"),
        (SUBSCRIPTIONS, "s"),
        (GROUPS, "g"),
    }
    assert listed(configured) == everything
    assert listed(configured, TOPICS, BROKERS, LOGGERS, SUBSCRIPTIONS, GROUPS) == everything
    assert listed(configured, TOPICS, TOPICS) == {(TOPICS, "t")}


def test_version_0_lists_subscriptions(configured: Node) -> None:
    response = configured.ask(ListConfigResourcesRequest(), 0)
    assert [found.resource_name for found in response.config_resources] == ["s"]


@pytest.mark.parametrize("kinds", [[0], [99], [TOPICS, 99]])
def test_types_that_do_not_exist(configured: Node, kinds: list[int]) -> None:
    response = configured.ask(ListConfigResourcesRequest(resource_types=kinds))
    assert response.error_code == Errors.UNSUPPORTED_VERSION
    assert response.config_resources == []
