"""The vocabulary in which the tables of settings are written.

A table module holds a tuple of rows, each `key(name, type, default, importance, documentation)`
and, where it has them, its rule and who may change it while the broker runs. Rows are not formatted
by the formatter, so that each stays a short paragraph. Facts (names, types, defaults, rules) are
Kafka's; every sentence is our own.
"""

import sys
from typing import Final

from kaa.config.definition import REQUIRED, ConfigDef, ConfigKey, UpdateMode
from kaa.config.validators import (
    GzipLevel,
    HostPorts,
    NonEmptyString,
    NonNull,
    QuorumVoters,
    ThrottledReplicas,
    ValidList,
    at_least,
    between,
    one_of,
    one_of_any_case,
)
from kaa.config.values import ConfigType, Importance

key = ConfigKey

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = sys.float_info.max

ANY_LIST: Final = ValidList()
ANY_LIST_OR_NULL: Final = ValidList(null_allowed=True)
FILLED_LIST: Final = ValidList(empty_allowed=False)
FILLED_LIST_OR_NULL: Final = ValidList(empty_allowed=False, null_allowed=True)

__all__ = [
    "ANY_LIST",
    "ANY_LIST_OR_NULL",
    "BOOLEAN",
    "CLASS",
    "CLUSTER_WIDE",
    "DOUBLE",
    "DOUBLE_MAX",
    "FILLED_LIST",
    "FILLED_LIST_OR_NULL",
    "HIGH",
    "INT",
    "INT_MAX",
    "LIST",
    "LONG",
    "LONG_MAX",
    "LOW",
    "MEDIUM",
    "PASSWORD",
    "PER_BROKER",
    "REQUIRED",
    "SHORT",
    "STRING",
    "ConfigDef",
    "ConfigKey",
    "GzipLevel",
    "HostPorts",
    "NonEmptyString",
    "NonNull",
    "QuorumVoters",
    "ThrottledReplicas",
    "ValidList",
    "at_least",
    "between",
    "key",
    "one_of",
    "one_of_any_case",
]
