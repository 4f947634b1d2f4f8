from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.handlers.support import Node

TOPICS, BROKERS, LOGGERS = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
Wanted = tuple[int, str, Sequence[Change]]


def request(*wanted: Wanted, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=each, config_operation=operation, value=value)
                    for each, operation, value in changes
                ],
            )
            for kind, name, changes in wanted
        ],
        validate_only=validate_only,
    )


def alter(node: Node, *wanted: Wanted, version: int | None = None) -> list[int]:
    """The errors, in the order of the request."""
    responses = node.ask(request(*wanted), version).responses
    assert [(each.resource_type, each.resource_name) for each in responses] == [
        (kind, name) for kind, name, _ in wanted
    ]
    assert all((each.error_message is None) == (each.error_code == 0) for each in responses)
    return [each.error_code for each in responses]


@pytest.mark.parametrize("version", [0, 1])
def test_single_settings_change(node: Node, version: int) -> None:
    node.create_topic("t", retention_ms="1000")
    changes: list[Change] = [
        ("retention.ms", DELETE, None),
        ("flush.ms", SET, "5"),
        ("cleanup.policy", APPEND, "compact"),
    ]
    assert alter(node, (TOPICS, "t", changes), version=version) == [Errors.NONE]
    stored = node.services.image.configs[TOPICS, "t"]
    assert stored == {"flush.ms": "5", "cleanup.policy": "delete,compact"}


def test_answers_have_the_order_of_the_request(node: Node) -> None:
    logging.getLogger("kaa.test.alter")
    node.create_topic("t")
    assert alter(
        node,
        (TOPICS, "absent", [("retention.ms", SET, "1")]),
        (LOGGERS, "1", [("kaa.test.alter", SET, "ERROR")]),
        (BROKERS, "7", [("num.io.threads", SET, "9")]),
        (TOPICS, "t", [("retention.ms", SET, "1")]),
        (99, "t", []),
    ) == [
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NONE,
        Errors.INVALID_REQUEST,
        Errors.NONE,
        Errors.INVALID_REQUEST,
    ]
    assert logging.getLogger("kaa.test.alter").level == logging.ERROR


@pytest.mark.parametrize(
    "changes",
    [
        [("retention.ms", SET, None)],
        [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
    ],
)
def test_refused_before_the_controller_is_asked(node: Node, changes: list[Change]) -> None:
    node.create_topic("t")
    assert alter(node, (TOPICS, "t", changes)) == [Errors.INVALID_REQUEST]


def test_a_resource_that_appears_twice(node: Node) -> None:
    node.create_topic("t")
    twice = (TOPICS, "t", [("retention.ms", SET, "7")])
    assert alter(node, twice, twice) == [Errors.INVALID_REQUEST] * 2


def test_a_dry_run_changes_nothing(node: Node) -> None:
    logging.getLogger("kaa.test.dry").setLevel(logging.INFO)
    node.create_topic("t")
    wanted: tuple[Wanted, ...] = (
        (LOGGERS, "1", [("kaa.test.dry", SET, "ERROR")]),
        (TOPICS, "t", [("retention.ms", SET, "1")]),
        (BROKERS, "1", [("num.io.threads", SET, "9")]),
    )
    responses = node.ask(request(*wanted, validate_only=True)).responses
    assert [each.error_code for each in responses] == [Errors.NONE] * 3
    assert logging.getLogger("kaa.test.dry").level == logging.INFO
    assert (TOPICS, "t") not in node.services.image.configs
    assert node.services.config.get_int("num.io.threads") == 8


def test_on_the_controller_listener(node: Node) -> None:
    logging.getLogger("kaa.test.controller")
    node.create_topic("t")
    wanted: tuple[Wanted, ...] = (
        (LOGGERS, "1", [("kaa.test.controller", SET, "ERROR")]),
        (LOGGERS, "7", [("kaa.test.controller", SET, "ERROR")]),
        (TOPICS, "t", [("retention.ms", SET, "1")]),
        # Not judged here: the broker that it is for will have to.
        (BROKERS, "1", [("num.io.threads", SET, "9000")]),
    )
    responses = node.ask(request(*wanted), listener="CONTROLLER").responses
    answers = [(each.resource_type, each.resource_name, each.error_code) for each in responses]
    assert answers == [
        (TOPICS, "t", Errors.NONE),
        (BROKERS, "1", Errors.NONE),
        (LOGGERS, "1", Errors.NONE),
        (LOGGERS, "7", Errors.INVALID_REQUEST),
    ]
