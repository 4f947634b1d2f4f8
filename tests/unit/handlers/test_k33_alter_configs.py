from __future__ import annotations

from collections.abc import Sequence

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tests.unit.handlers.support import Node

TOPICS, BROKERS, LOGGERS = 2, 4, 8
Setting = tuple[str, str | None]
Wanted = tuple[int, str, Sequence[Setting]]


def alter(
    node: Node, *wanted: Wanted, version: int | None = None, listener: str = "PLAINTEXT"
) -> list[int]:
    """The errors, in the order of the request."""
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=each, value=value) for each, value in settings],
            )
            for kind, name, settings in wanted
        ]
    )
    responses = node.ask(request, version, listener=listener).responses
    assert [(each.resource_type, each.resource_name) for each in responses] == [
        (kind, name) for kind, name, _ in wanted
    ]
    assert all((each.error_message is None) == (each.error_code == 0) for each in responses)
    return [each.error_code for each in responses]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_settings_are_replaced(node: Node, version: int) -> None:
    node.create_topic("t", retention_ms="1000", flush_ms="5")
    assert alter(node, (TOPICS, "t", [("retention.ms", "7")]), version=version) == [Errors.NONE]
    assert node.services.image.configs[TOPICS, "t"] == {"retention.ms": "7"}
    assert node.partition("t").online_log().config.retention_ms == 7


def test_this_broker_judges_its_own_settings(node: Node) -> None:
    taken = (BROKERS, "1", [("num.io.threads", "9")])
    bad = (BROKERS, "", [("num.io.threads", "x")])
    other = (BROKERS, "7", [("num.io.threads", "9")])
    invalid = Errors.INVALID_REQUEST
    assert alter(node, bad, taken, other) == [invalid, Errors.NONE, invalid]
    assert node.services.config.get_int("num.io.threads") == 9


@pytest.mark.parametrize(
    "wanted",
    [
        (TOPICS, "t", [("retention.ms", None)]),
        (TOPICS, "t", [("retention.ms", "1"), ("retention.ms", "2")]),
        (LOGGERS, "1", [("root", "INFO")]),
        (99, "t", []),
    ],
)
def test_refused_before_the_controller_is_asked(node: Node, wanted: Wanted) -> None:
    node.create_topic("t")
    errors = alter(node, wanted, (TOPICS, "absent", []))
    assert errors == [Errors.INVALID_REQUEST, Errors.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_resource_that_appears_twice(node: Node) -> None:
    node.create_topic("t")
    twice = (TOPICS, "t", [("retention.ms", "7")])
    assert alter(node, twice, twice) == [Errors.INVALID_REQUEST] * 2
    assert (TOPICS, "t") not in node.services.image.configs


def test_the_controller_listener_passes_all_on(node: Node) -> None:
    node.create_topic("t")
    wanted = (TOPICS, "t", [("retention.ms", "7")])
    assert alter(node, wanted, listener="CONTROLLER") == [Errors.NONE]
    assert alter(node, (99, "t", []), listener="CONTROLLER") == [Errors.UNSUPPORTED_VERSION]
