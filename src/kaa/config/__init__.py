"""Settings: Kafka's names, types, defaults and rules for brokers, topics, groups, clients.

``server`` reads the configuration of a node, ``topic`` and ``group`` work out what one of them
gets, ``dynamic`` changes a running broker's, ``describe`` reports all of it. The tables behind them
are loaded where they are used.
"""

from kaa.config.definition import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
    UpdateMode,
)
from kaa.config.values import ConfigError, ConfigType, ConfigValue, Importance, Password

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigError",
    "ConfigKey",
    "ConfigProblem",
    "ConfigType",
    "ConfigValue",
    "ConfigValues",
    "Importance",
    "InvalidConfigError",
    "Password",
    "UpdateMode",
]
