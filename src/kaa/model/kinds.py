"""Kinds of things that several layers tell apart."""

from enum import Enum, IntEnum
from typing import Final

# When a producer wants its answer: never, when the leader has its records, or when every in-sync
# replica has them.
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1


class ResourceType(IntEnum):
    """What can have settings, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a setting comes from, the strongest first; the numbers are those of the
    DescribeConfigs response.
    """

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class AppendOrigin(Enum):
    """Who wrote a batch, which decides how much of it is checked."""

    CLIENT = "client"
    # A coordinator of this broker: offset commits and markers have no sequences.
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"
