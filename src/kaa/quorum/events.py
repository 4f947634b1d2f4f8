"""What happens to a replica of the quorum: the input of `QuorumMachine.handle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.quorum.values import Value

if TYPE_CHECKING:
    from kaa.quorum.messages import Records, Request, Response
    from kaa.quorum.voters import VoterSet


class Start(Value):
    """The first event, once: the log is recovered and on disk, the voter history is filled."""


class Tick(Value):
    """Time has reached `next_deadline_ms`, or the driver wants the machine to look at its log
    again.
    """


class ReceivedRequest(Value):
    """A request of another replica. The id is the driver's, and comes back in the answer, exactly
    once.
    """

    request_id: int
    request: Request


class ReceivedResponse(Value):
    """The answer to a `SendRequest`. One that is late or comes twice is harmless."""

    node_id: int
    correlation_id: int
    response: Response


class LogWritten(Value):
    """The log write with this id, and all before it, are on disk, and the log then ended at
    `end_offset`.
    """

    write_id: int
    end_offset: int


class FetchDamaged(Value):
    """Nothing of what the leader sent could be taken: a snapshot, in place of its log write, or the
    first batch of records, whose log write is reported as any other.
    """

    # What it is and what is wrong with it.
    what: str
    write_id: int | None = None


class VoterSetRead(Value):
    """A VotersRecord was appended at this offset, or stands in the snapshot that ends after it."""

    offset: int
    voters: VoterSet


class Append(Value):
    """The local state machine, which knows that it leads `epoch`, wants records in the log."""

    append_id: int
    epoch: int
    records: Records


class Resign(Value):
    """The local state machine gives the leadership of `epoch` up."""

    epoch: int


class Shutdown(Value):
    """Hand the leadership over and stop, within this time."""

    timeout_ms: int


Event = (
    Start
    | Tick
    | ReceivedRequest
    | ReceivedResponse
    | LogWritten
    | FetchDamaged
    | VoterSetRead
    | Append
    | Resign
    | Shutdown
)
