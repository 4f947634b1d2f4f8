"""What clients did and saw, as plain values.

A history is a list of operations in the order in which they ended. An operation belongs to one
client and holds steps in their order: records sent and records polled. Every value is sent once in
a history, so that a value says who sent it.

The outcome of an operation is known or not: `OK` took effect, `FAILED` certainly did not (its
transaction was aborted, its send was refused), and `UNKNOWN` may have done either (the answer was
lost). Only what is certain is ever held against the system under test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Outcome(Enum):
    OK = auto()
    FAILED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Send:
    """One record sent; the offset is None where no acknowledgement came."""

    partition: int
    value: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """Records of one partition as one poll gave them: (offset, value) in the order given."""

    partition: int
    records: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """What one client did at one time; `position_kept` says that its polls follow the earlier ones.

    It is false for the first operation after a client subscribed, had its partitions taken or given
    anew, or moved to another offset: such polls may begin anywhere.
    """

    client: int
    outcome: Outcome
    steps: tuple[Send | Poll, ...]
    is_transaction: bool = False
    position_kept: bool = True

    def sends(self) -> list[Send]:
        return [step for step in self.steps if isinstance(step, Send)]

    def polls(self) -> list[Poll]:
        return [step for step in self.steps if isinstance(step, Poll)]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that may not happen, and where it was seen."""

    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"
