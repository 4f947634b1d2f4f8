from __future__ import annotations

import logging

import pytest

from kaa.serving.logger_levels import (
    LEVELS,
    ROOT,
    logger_levels,
    set_logger_level,
    unset_logger_level,
)


@pytest.mark.parametrize("level", LEVELS)
def test_levels_are_set_and_told(level: str) -> None:
    logging.getLogger("kaa.test.levels")
    set_logger_level("kaa.test.levels", level)
    assert logger_levels()["kaa.test.levels"] == level


def test_a_level_is_inherited_when_it_is_unset() -> None:
    logging.getLogger("kaa.test.parent.child")
    logging.getLogger("kaa.test.parent")
    set_logger_level("kaa.test.parent", "FATAL")
    set_logger_level("kaa.test.parent.child", "TRACE")
    unset_logger_level("kaa.test.parent.child")
    assert logger_levels()["kaa.test.parent.child"] == "FATAL"


def test_the_root_has_a_name() -> None:
    before = logging.getLogger().level
    try:
        set_logger_level(ROOT, "ERROR")
        assert logging.getLogger().level == logging.ERROR
        assert logger_levels()[ROOT] == "ERROR"
    finally:
        logging.getLogger().setLevel(before)


@pytest.mark.parametrize(("number", "name"), [(1, "TRACE"), (25, "WARN"), (60, "FATAL")])
def test_levels_in_between(number: int, name: str) -> None:
    logging.getLogger("kaa.test.between").setLevel(number)
    assert logger_levels()["kaa.test.between"] == name


def test_loggers_that_nobody_asked_for_do_not_exist() -> None:
    logging.getLogger("kaa.test.only.leaf")
    assert "kaa.test.only.leaf" in logger_levels()
    assert "kaa.test.only" not in logger_levels()
