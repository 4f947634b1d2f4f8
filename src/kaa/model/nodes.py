"""Where a node can be reached, and what it supports."""

from enum import IntEnum
from typing import Final, NamedTuple

NO_PROTOCOL: Final = -1
NO_LEADER: Final = -1


class SecurityProtocol(IntEnum):
    """What runs between the socket and the requests of a listener, with Kafka's numbers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class HostPort(NamedTuple):
    """Where a node listens; a name is resolved when it is dialled."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoint(NamedTuple):
    """A listener, or the address of one. An empty host stands for every interface."""

    listener: str
    host: str
    port: int
    # A `SecurityProtocol`, or a number that a newer node registered; `NO_PROTOCOL` where the
    # source has none, as the records of voters.
    security_protocol: int = NO_PROTOCOL

    def __str__(self) -> str:
        return f"{self.listener}://{HostPort(self.host, self.port)}"


class VersionRange(NamedTuple):
    """The levels of a feature that a node supports, both ends included."""

    min: int = 0
    max: int = 0
