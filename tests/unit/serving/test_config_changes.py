from __future__ import annotations

import logging

import pytest

from kaa.controller.result import ControllerError
from kaa.model.pieces import finish
from kaa.serving.config_changes import (
    alter_loggers,
    check_broker_changes,
    check_broker_settings,
    check_no_name_twice,
)
from kaa.wire.errors import Errors
from tests.unit.handlers.support import Node

SET, DELETE, APPEND, SUBTRACT = range(4)
CONFIG = Node().config


def test_a_name_only_once() -> None:
    finish(check_no_name_twice(["a", "b"]))
    with pytest.raises(ControllerError) as refused:
        finish(check_no_name_twice(["a", "b", "a"]))
    assert refused.value.error is Errors.INVALID_REQUEST


def test_loggers_change() -> None:
    logger = logging.getLogger("kaa.test.change")
    alter_loggers(1, "1", {"kaa.test.change": (SET, "DEBUG")}, validate_only=False)
    assert logger.level == logging.DEBUG
    alter_loggers(1, "1", {"kaa.test.change": (DELETE, None)}, validate_only=False)
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("resource", "name", "operation", "level", "error"),
    [
        ("2", "root", SET, "INFO", Errors.INVALID_REQUEST),
        ("", "root", SET, "INFO", Errors.INVALID_REQUEST),
        ("1", "root", SET, "info", Errors.INVALID_CONFIG),
        ("1", "root", SET, None, Errors.INVALID_REQUEST),
        ("1", "root", DELETE, None, Errors.INVALID_REQUEST),
        ("1", "root", APPEND, "INFO", Errors.INVALID_REQUEST),
        ("1", "root", 9, "INFO", Errors.INVALID_REQUEST),
        ("1", "no.such.logger", SET, "INFO", Errors.INVALID_CONFIG),
        ("1", "no.such.logger", DELETE, None, Errors.INVALID_CONFIG),
    ],
)
def test_changes_of_loggers_that_are_refused(
    resource: str, name: str, operation: int, level: str | None, error: Errors
) -> None:
    logger = logging.getLogger("kaa.test.untouched")
    changes = {"kaa.test.untouched": (SET, "FATAL"), name: (operation, level)}
    with pytest.raises(ControllerError) as refused:
        alter_loggers(1, resource, changes, validate_only=False)
    assert refused.value.error is error
    assert logger.level == logging.NOTSET


def test_changes_of_brokers() -> None:
    check_broker_changes(CONFIG, 1, "1", {"num.io.threads": (SET, "9")}, {})
    check_broker_changes(CONFIG, 1, "", {"num.io.threads": (SET, "9")}, {})
    # What is stored counts too: alone the deletion would be fine, and so would the change.
    stored = {"num.io.threads": "x"}
    check_broker_changes(CONFIG, 1, "1", {"num.io.threads": (DELETE, None)}, stored)
    with pytest.raises(ControllerError):
        check_broker_changes(CONFIG, 1, "1", {"background.threads": (SET, "9")}, stored)


@pytest.mark.parametrize(
    ("resource", "name", "operation", "value", "error"),
    [
        ("2", "num.io.threads", SET, "9", Errors.INVALID_REQUEST),
        ("x", "num.io.threads", SET, "9", Errors.INVALID_REQUEST),
        ("1", "num.io.threads", SET, "x", Errors.INVALID_REQUEST),
        ("1", "num.io.threads", SET, "900", Errors.INVALID_REQUEST),
        ("1", "node.id", SET, "9", Errors.INVALID_REQUEST),
        ("", "listeners", SET, "PLAINTEXT://:1", Errors.INVALID_REQUEST),
        ("1", "num.io.threads", APPEND, "9", Errors.INVALID_CONFIG),
        ("1", "no.such.setting", APPEND, "9", Errors.INVALID_CONFIG),
        ("1", "num.io.threads", 9, "9", Errors.INVALID_REQUEST),
    ],
)
def test_changes_of_brokers_that_are_refused(
    resource: str, name: str, operation: int, value: str, error: Errors
) -> None:
    with pytest.raises(ControllerError) as refused:
        check_broker_changes(CONFIG, 1, resource, {name: (operation, value)}, {})
    assert refused.value.error is error
    assert refused.value.message


def test_whole_sets() -> None:
    check_broker_settings(CONFIG, 1, "1", {})
    with pytest.raises(ControllerError) as refused:
        check_broker_settings(CONFIG, 1, "2", {})
    assert refused.value.error is Errors.INVALID_REQUEST
