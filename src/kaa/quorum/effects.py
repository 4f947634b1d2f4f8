"""What a replica of the quorum must do, in this order: the output of `QuorumMachine.handle`.

The order is the safety of the whole. Vote and epoch are on disk before any message that follows
them in the list leaves; a log write is reported back with `LogWritten` only when it is on disk, and
only then does the machine count it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.quorum.values import Value

if TYPE_CHECKING:
    from kaa.quorum.election import ElectionState
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.messages import FetchResponse, FetchSnapshotResponse, Records, Request, Response
    from kaa.quorum.voters import Node, VoterSet
    from kaa.wire.errors import Errors


class PersistElection(Value):
    """Write the quorum state file and have it on disk before the next effect."""

    election: ElectionState


class SendRequest(Value):
    """Send to a node; the answer, or that there is none, comes back under the correlation id."""

    node: Node
    correlation_id: int
    request: Request


class Respond(Value):
    """Answer a request."""

    request_id: int
    response: Response


class RespondWithRecords(Value):
    """Answer a fetch with records read from the log at `offset`, at least one batch, else up to
    `max_bytes`.
    """

    request_id: int
    response: FetchResponse
    offset: int
    max_bytes: int


class RespondWithSnapshot(Value):
    """Answer with a piece of a snapshot."""

    request_id: int
    response: FetchSnapshotResponse
    max_bytes: int


class AppendLeaderChange(Value):
    """Append the control record that opens an epoch, and flush."""

    write_id: int
    epoch: int
    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


class AppendVoters(Value):
    """Append a VotersRecord at the log end under this epoch, and flush."""

    write_id: int
    epoch: int
    voters: VoterSet


class AppendAsLeader(Value):
    """Append the records of an `Append` event at the log end under this epoch, and flush."""

    write_id: int
    append_id: int
    epoch: int
    records: Records


class RejectAppend(Value):
    """The records of an `Append` event were not taken."""

    append_id: int
    error: Errors


class AppendAsFollower(Value):
    """Append fetched batches as they are; an observer need not flush. A damaged batch ends the
    append before it.
    """

    write_id: int
    epoch: int
    records: Records
    flush: bool


class TruncateLog(Value):
    """Cut everything from this offset off the log; it must not come back after the next flush."""

    write_id: int
    offset: int


class BeginSnapshot(Value):
    """Open an empty, unfinished snapshot to download into; one of the same id that was begun before
    is dropped.
    """

    snapshot_id: OffsetAndEpoch


class AppendToSnapshot(Value):
    """Write a piece at the end of the unfinished snapshot, which is `position`."""

    snapshot_id: OffsetAndEpoch
    position: int
    records: Records


class DiscardSnapshot(Value):
    """Drop an unfinished snapshot."""

    snapshot_id: OffsetAndEpoch


class InstallSnapshot(Value):
    """Finish and flush the snapshot, empty the log, let it start at the snapshot's end offset."""

    write_id: int
    snapshot_id: OffsetAndEpoch


class HighWatermarkAdvanced(Value):
    """All below this offset is committed for ever; it never falls."""

    high_watermark: int


class LeaderChanged(Value):
    """Who leads which epoch, as far as known.

    When the leader is this replica, the local state machine may learn so only after it has
    applied every record up to and including `epoch_start_offset`: before that its state lacks what
    earlier leaders committed.
    """

    epoch: int
    leader_id: int | None
    epoch_start_offset: int | None = None


class Report(Value):
    """Something an operator should read in the log: a peer that breaks the protocol, a refused
    request.
    """

    message: str


class Stopped(Value):
    """The shutdown is over; `clean` is False when it ran into its time limit. The machine does
    nothing from here on.
    """

    clean: bool


Effect = (
    PersistElection
    | SendRequest
    | Respond
    | RespondWithRecords
    | RespondWithSnapshot
    | AppendLeaderChange
    | AppendAsLeader
    | AppendVoters
    | RejectAppend
    | AppendAsFollower
    | TruncateLog
    | BeginSnapshot
    | AppendToSnapshot
    | DiscardSnapshot
    | InstallSnapshot
    | HighWatermarkAdvanced
    | LeaderChanged
    | Report
    | Stopped
)
