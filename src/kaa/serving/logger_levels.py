"""The levels of this process's loggers, under the names that Kafka has for them (KIP-412).

Loggers belong to the process, as in a JVM: nodes that share it share them, and a change is gone
with it. A logger without a level of its own reports the one that it inherits; a level between two
of Kafka's reports the upper one, which is what passes.
"""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """The level of every logger that anybody has asked for, and of the root."""
    levels = {ROOT: _name(logging.getLogger().getEffectiveLevel())}
    # A copy, since other threads may make loggers meanwhile.
    for name, logger in logging.Logger.manager.loggerDict.copy().items():
        if isinstance(logger, logging.Logger):
            levels[name] = _name(logger.getEffectiveLevel())
    return levels


def set_logger_level(name: str, level: str) -> None:
    _logger(name).setLevel(LEVELS[level])


def unset_logger_level(name: str) -> None:
    """From now on the logger does what its parent does."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name(number: int) -> str:
    return next((name for name, level in LEVELS.items() if number <= level), "FATAL")
