"""What a broker looks at before the controller is asked to change settings.

The levels of loggers belong to the process and are changed here; the controller never hears of
them. The settings of brokers are judged here, since the controller knows no better what a running
broker can take: this broker for itself, and any broker for the defaults of all. Everything else is
for the controller alone.

A change of loggers is judged as a whole before any of it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.config.definition import InvalidConfigError
from kaa.config.dynamic import validate_update
from kaa.config.values import ConfigError
from kaa.controller.configs import Operation, new_value
from kaa.controller.result import ControllerError
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.kinds import ResourceType
from kaa.serving.logger_levels import (
    LEVELS,
    ROOT,
    logger_levels,
    set_logger_level,
    unset_logger_level,
)
from kaa.serving.node_ids import check_node_id
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.config.server import BrokerConfig
    from kaa.controller.configs import Changes
    from kaa.model.pieces import Pieces


def check_no_name_twice(names: Iterable[str]) -> Pieces[None]:
    seen = set()
    for number, name in enumerate(names, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if name in seen:
            raise ControllerError(Errors.INVALID_REQUEST, f"{name} is changed twice")
        seen.add(name)


def alter_loggers(node_id: int, resource: str, changes: Changes, *, validate_only: bool) -> None:
    """Changes levels of this process's loggers; ControllerError if any change is refused."""
    check_node_id(resource, node_id)
    known = logger_levels()
    for name, (operation, level) in changes.items():
        _check_logger(known, name, operation, level)
    if validate_only:
        return
    for name, (operation, level) in changes.items():
        if operation == Operation.DELETE:
            unset_logger_level(name)
        elif level is not None:
            set_logger_level(name, level)


def _check_logger(known: Mapping[str, str], name: str, operation: int, level: str | None) -> None:
    if operation not in {Operation.SET, Operation.DELETE}:
        raise ControllerError(Errors.INVALID_REQUEST, "a level can only be set or deleted")
    if name not in known:
        raise ControllerError(Errors.INVALID_CONFIG, f"there is no logger {name}")
    if operation == Operation.SET and level is None:
        raise ControllerError(Errors.INVALID_REQUEST, f"{name} has no value")
    if operation == Operation.SET and level not in LEVELS:
        raise ControllerError(
            Errors.INVALID_CONFIG, f"{level} is not a level; there are {', '.join(LEVELS)}"
        )
    if operation == Operation.DELETE and name == ROOT:
        raise ControllerError(Errors.INVALID_REQUEST, f"{ROOT} must have a level")


def check_broker_changes(
    config: BrokerConfig,
    node_id: int,
    resource: str,
    changes: Changes,
    stored: Mapping[str, str],
) -> None:
    """Judges changes on top of what the cluster has stored for the broker, or for all of them."""
    if resource:
        check_node_id(resource, node_id)
    settings = dict(stored)
    for name, (operation, value) in changes.items():
        key = (ResourceType.BROKER, resource)
        wanted = new_value(key, name, operation, value, settings.get(name))
        if wanted is None:
            settings.pop(name, None)
        else:
            settings[name] = wanted
    check_broker_settings(config, node_id, resource, settings)


def check_broker_settings(
    config: BrokerConfig, node_id: int, resource: str, settings: Mapping[str, str]
) -> None:
    """Judges the whole set that the cluster would store for the broker, or for all of them."""
    if resource:
        check_node_id(resource, node_id)
    try:
        validate_update(config, settings, per_broker=bool(resource))
    except (ConfigError, InvalidConfigError) as error:
        # Kafka says it with this code, whatever is wrong (KAFKA-13609).
        raise ControllerError(Errors.INVALID_REQUEST, str(error)) from error
