"""What a coordinator is to the runtime: a machine without IO.

A command is a method of the machine that returns a `CoordinatorResult`. It changes nothing durable:
what is to be remembered stands in the records, and `replay` puts it into memory, now and after
every restart. State that no restart has to bring back (who waits for a rebalance, deadlines) is
changed by commands directly.

An answer leaves when the records of its command are committed. A command may also answer others,
whose requests were left waiting (`replies`): those leave at once. If the records of a command are
lost, its own request is refused, even if it was left waiting; a later reply to it goes nowhere.
Where the machine has to go on after a commit, or take something back after a failure, the result
names an event (`then`), which comes back by `appended` with the outcome. What it cannot do itself
(have markers written) stands in the result as well (`effects`), and is done by its driver.

`CoordinatorError` refuses a command; the machine must not have changed anything before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kaa.coordinators.records import VERSION, encode_key
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.coordinators.timeline import Timeline
    from kaa.coordinators.timers import Timers
    from kaa.model.pieces import Pieces
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue


# What clients get when an append fails: the error of the log means nothing to them.
_FOR_CLIENTS: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.INVALID_FETCH_SIZE: Errors.UNKNOWN_SERVER_ERROR,
}


def error_for_clients(error: Errors) -> Errors:
    """The error of an operation as its client gets it."""
    return _FOR_CLIENTS.get(error, error)


class Moment(NamedTuple):
    """Now, by the clock that tells the date and by the one that never jumps."""

    wall_ms: int
    monotonic_ms: int


class CoordinatorError(Exception):
    """A refused command; the code is the client's answer."""

    def __init__(self, error: Errors, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message

    def for_clients(self) -> CoordinatorError:
        """The refusal as its client gets it, with its words. One without words may be an error of
        the log, which means nothing to a client: it becomes another.
        """
        if self.message is not None:
            return self
        error = error_for_clients(self.error)
        return CoordinatorError(error, error.message if error is self.error else None)


class WritableRecord(Protocol):
    """A record to append, which knows its bytes and what it means to its machine."""

    @property
    def key(self) -> CoordinatorKey: ...

    @property
    def value(self) -> CoordinatorValue | None: ...

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value; no value is a tombstone."""
        ...

    def replay(
        self, machine: Any, offset: int, producer_id: int, producer_epoch: int
    ) -> Pieces[None] | None:
        """Does to the machine what reading it from the log at that offset would; what is left of
        it, as `Machine.replay`.
        """
        ...


class NewRecord(NamedTuple):
    """A record to append as two messages. Without a value it is a tombstone."""

    key: CoordinatorKey
    value: CoordinatorValue | None
    value_version: int = 0

    def encode(self) -> tuple[bytes, bytes | None]:
        key, version = encode_key(self.key), self.value_version
        if self.value is None:
            return key, None
        return key, VERSION.pack(version) + self.value.encode(version)

    def replay(
        self, machine: Machine, offset: int, producer_id: int, producer_epoch: int
    ) -> Pieces[None] | None:
        return machine.replay(offset, self.key, self.value, producer_id, producer_epoch)


class Waiter(Protocol):
    """A request that may be left waiting. Machines keep it, and give it back in a `Reply`."""

    def keep(self, answer: Any, /) -> None:
        """Takes the answer of the machine."""
        ...


class Reply(NamedTuple):
    """The answer to a request that was left waiting."""

    waiter: Waiter
    response: Any


class CoordinatorResult(NamedTuple):
    """What a command decided."""

    records: Sequence[WritableRecord] = ()
    # The answer to the command itself; None if it comes by a reply of this or another command.
    response: Any = None
    replies: Sequence[Reply] = ()
    # Comes back by `appended` when the records are committed, or failed to be.
    then: Any = None
    # False if memory already is as the records say.
    is_replayed: bool = True
    # False if the records may be appended in several batches.
    is_atomic: bool = True
    # What the machine cannot do itself; done as soon as the command has succeeded.
    effects: Sequence[Any] = ()


class Machine(Protocol):
    """The state of one partition of a coordinator."""

    # All durable state lives on it.
    timeline: Timeline
    # When `expire` has something to do.
    timers: Timers[Any]

    def replay(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
        producer_epoch: int,
    ) -> Pieces[None] | None:
        """Puts a record into memory. -1 is the producer id of records outside transactions. One
        that names thousands of partitions is begun, and the pieces that are left come back: the
        caller does them before the machine does anything else.
        """
        ...

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        """The open transaction of the producer has ended; replayed in pieces, as the caller asks
        for them.
        """
        ...

    def loaded(self, now: Moment) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """Every record of the partition was replayed: the machine begins to serve."""
        ...

    def unloaded(self) -> Sequence[Reply]:
        """The machine ends; the last answers to those who wait."""
        ...

    def appended(self, then: Any, error: Errors, now: Moment) -> CoordinatorResult:
        """The records of an earlier result are committed, or failed with the error."""
        ...

    def expire(self, now: Moment) -> CoordinatorResult | Pieces[CoordinatorResult] | None:
        """Acts on one deadline that has passed; None if there is none."""
        ...
