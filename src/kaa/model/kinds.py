"""Kinds of things that several layers tell apart."""

from enum import Enum, IntEnum
from typing import Final

# What a producer asks for: an answer when every in-sync replica has its records.
ACKS_ALL: Final = -1


class ResourceType(IntEnum):
    """What can have settings, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AppendOrigin(Enum):
    """Who wrote a batch, which decides how much of it is checked."""

    CLIENT = "client"
    # A coordinator of this broker: offset commits and markers have no sequences.
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"
